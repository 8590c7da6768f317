"""Slow, obvious versions: definitions written term by term, nothing of ours imported.

Each takes Python numbers, Fractions or numpy arrays in float64 and loops.
"""

import numpy as np

# --- returns --------------------------------------------------------------------------


def lambda_returns(reward, discount, last, v_next, lam):
    """(1 - lam) sum_n lam^(n-1) G^(n) + lam^(N-1) G^(N), term by term, in O(T^2).

    G^(n) is the n-step return; N is how many steps are left up to the next `last`.
    Exact for Fractions.
    """
    returns = []
    for t in range(len(reward)):
        n_step, weight, gathered = [], 1, 0
        for i in range(t, len(reward)):
            gathered = gathered + weight * reward[i]
            weight = weight * discount[i]
            n_step.append(gathered + weight * v_next[i])
            if last[i]:
                break
        mixed = sum(lam**k * g for k, g in enumerate(n_step[:-1]))
        returns.append((1 - lam) * mixed + lam ** (len(n_step) - 1) * n_step[-1])
    return returns


def discount_of(terminated, truncated, gamma, time_limit):
    """0 where the next state has no future, gamma elsewhere."""
    ends = terminated or (truncated and time_limit == "terminal")
    return 0 * gamma if ends else gamma


# --- statistics -----------------------------------------------------------------------


def two_pass(x):
    """(mean, variance over N) of the rows of x, in float64."""
    x = np.asarray(x, np.float64)
    mean = x.sum(axis=0) / len(x)
    return mean, ((x - mean) ** 2).sum(axis=0) / len(x)


def decayed_batch_stats(batches, retention):
    """Caffe's batch norm: (mean, variance), each batch weighted by its size and age."""
    ages = range(len(batches) - 1, -1, -1)
    weights = [retention**age * len(x) for age, x in zip(ages, batches, strict=True)]
    means = [two_pass(x)[0] for x in batches]
    unbiased = [two_pass(x)[1] * len(x) / max(len(x) - 1, 1) for x in batches]
    total = sum(weights)
    mean = sum(w * m for w, m in zip(weights, means, strict=True)) / total
    return mean, sum(w * u for w, u in zip(weights, unbiased, strict=True)) / total


# --- networks -------------------------------------------------------------------------

ACTIVATIONS = {
    "leaky_relu": (lambda x: np.where(x > 0, x, x / 100),
                   lambda x: np.where(x > 0, 1, 0.01)),
    "relu": (lambda x: np.where(x > 0, x, 0), lambda x: np.where(x > 0, 1.0, 0.0)),
    "tanh": (np.tanh, lambda x: 1 - np.tanh(x) ** 2),
}  # fmt: skip


def mlp(layers, x, activation):
    """The output, and what each layer saw: its input and its sum before activation."""
    act, _ = ACTIVATIONS[activation]
    seen = []
    for i, (w, b) in enumerate(layers):
        z = x @ w + b
        seen.append((x, z))
        x = act(z) if i < len(layers) - 1 else z
    return x, seen


def mlp_gradient(layers, seen, activation, g):
    """Back-propagation by hand of g = dL/d(output): [(dW, db), ...] and dL/dx."""
    _, slope = ACTIVATIONS[activation]
    gradients = []
    for i in reversed(range(len(layers))):
        x, z = seen[i]
        if i < len(layers) - 1:
            g = g * slope(z)
        gradients.append((x.T @ g, g.sum(axis=0)))
        g = g @ layers[i][0].T
    return gradients[::-1], g


def finite_difference(f, x, h=1e-6):
    """df/dx, one component after another, by central differences."""
    x = np.array(x, np.float64)
    gradient = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[i] = h
        gradient[i] = (f(x + step) - f(x - step)) / (2 * h)
    return gradient


class Adam:
    """Kingma and Ba, Algorithm 1, on a list of arrays."""

    def __init__(self, lr, b1, b2, like, eps=1e-8):
        self.lr, self.b1, self.b2, self.eps, self.t = lr, b1, b2, eps, 0
        self.m = [np.zeros_like(x) for x in like]
        self.v = [np.zeros_like(x) for x in like]

    def step(self, parameters, gradients):
        self.t += 1
        moved = []
        for i, (p, g) in enumerate(zip(parameters, gradients, strict=True)):
            self.m[i] = self.b1 * self.m[i] + (1 - self.b1) * g
            self.v[i] = self.b2 * self.v[i] + (1 - self.b2) * g**2
            m = self.m[i] / (1 - self.b1**self.t)
            v = self.v[i] / (1 - self.b2**self.t)
            moved.append(p - self.lr * m / (np.sqrt(v) + self.eps))
        return moved


# --- the whole update -----------------------------------------------------------------


def actor_weights(advantage, rule, softness=0.0):
    """H(A), A H(A) or A, one step after another; or the soft step in place of H(A)."""
    if rule == "cacla" and softness:
        return np.array([(1 + np.tanh(a / softness)) / 2 for a in advantage])
    return np.array([
        {"cacla": 1.0 * (a > 0), "cac": a if a > 0 else 0.0, "spg": a}[rule]
        for a in advantage
    ])  # fmt: skip


def distance_of(mu_old, mu, kind):
    """The root mean square of the differences, or the sum the paper prints."""
    gap = mu_old - mu
    if kind != "printed":
        return np.sqrt((gap**2).mean())
    return sum(np.linalg.norm(row) for row in gap) / np.sqrt(gap.size)


def adapted_beta(beta, distance, cfg):
    """Sec. 5.2 with the clamps of the authors' code."""
    if distance < cfg.d_target / 1.5:
        beta = beta / 2
    elif distance > cfg.d_target * 1.5:
        beta = beta * 2
    return min(max(beta, cfg.beta_min), cfg.beta_max)


class SlowLearner:
    """NFAC and PeNFAC in numpy loops, from the words of a config.

    It starts from given networks, knows no padding (it drops what was not played) and
    keeps every state and batch it has seen to compute statistics from scratch.
    """

    def __init__(self, cfg, actor_layers, critic_layers):
        def arrays(layers):
            return [
                (np.asarray(w, np.float64), np.asarray(b, np.float64))
                for w, b in layers
            ]

        self.cfg = cfg
        self.actor, self.critic = arrays(actor_layers), arrays(critic_layers)
        n = len(self.actor[0][0])
        self.scale, self.shift = np.ones(n), np.zeros(n)
        self.seen = np.zeros((0, n))  # every state of earlier updates
        self.passes = []  # every batch that batch norm was shown
        self.returned = np.zeros(0)  # every return of earlier updates
        self.beta = cfg.beta_start if cfg.trust_region else 0.0
        moments = (cfg.adam_b1, cfg.adam_b2)
        self.critic_adam = Adam(cfg.critic_lr, *moments, flat(self.critic))
        self.actor_adam = Adam(cfg.actor_lr, *moments, self.actor_parameters())

    # how an observation enters

    def running(self, obs):
        if len(self.seen) == 0:
            mean, std = 0.0, 1.0
        else:
            mean, variance = two_pass(self.seen)
            std = np.array([np.sqrt(v) if v >= 1e-6 else 1.0 for v in variance])
        return np.clip((obs - mean) / std, -self.cfg.obs_clip, self.cfg.obs_clip)

    def actor_input(self, obs):
        """As acting sees it: statistics of the past only."""
        if self.cfg.normalise_actor == "none":
            return obs
        if self.cfg.normalise_actor == "running":
            return self.running(obs)
        mean, variance = (0.0, 0.0)
        if self.passes:
            mean, variance = decayed_batch_stats(self.passes, 0.999)
        return (obs - mean) / np.sqrt(variance + 1e-5)

    def critic_input(self, obs):
        return self.running(obs) if self.cfg.normalise_critic == "running" else obs

    # networks

    def actor_parameters(self):
        return [self.scale, self.shift, *flat(self.actor)]

    def mean(self, x):
        z, seen = mlp(self.actor, x * self.scale + self.shift, self.cfg.activation)
        return (np.tanh(z) if self.cfg.actor_output == "tanh" else z), seen

    def mu(self, obs):
        return self.mean(self.actor_input(obs))[0]

    def value(self, x):
        out, seen = mlp(self.critic, x, self.cfg.activation)
        return out[:, 0], seen

    # the update

    def advantages(self, b, x, x_next):
        cfg = self.cfg
        v, v_next = self.value(x)[0], self.value(x_next)[0]
        discount = [
            discount_of(e, c, cfg.gamma, cfg.time_limit)
            for e, c in zip(b["terminated"], b["truncated"], strict=True)
        ]
        returns = lambda_returns(b["reward"], discount, b["last"], v_next, cfg.lam)
        return np.array(returns) - v, v

    def deviation(self):
        """Of returns, as rewards are divided by it; 1 before anything was seen."""
        if not self.cfg.normalise_returns or len(self.returned) == 0:
            return 1.0
        variance = np.var(self.returned)
        return np.sqrt(variance) if variance >= 1e-6 else 1.0

    def scaled(self, b, x, x_next):
        """The batch with rewards in deviations of the return, its own returns included."""
        cfg, scale = self.cfg, self.deviation()
        v_next = scale * self.value(x_next)[0]
        discount = [
            discount_of(e, c, cfg.gamma, cfg.time_limit)
            for e, c in zip(b["terminated"], b["truncated"], strict=True)
        ]
        paid = lambda_returns(b["reward"], discount, b["last"], v_next, 1.0)
        self.returned = np.concatenate([self.returned, paid])
        if not cfg.normalise_returns:
            return b
        return b | {"reward": np.clip(b["reward"] / self.deviation(), -10, 10)}

    def fit_critic(self, b, x, x_next, orders):
        for i in range(self.cfg.fitted_iterations):
            advantage, v = self.advantages(b, x, x_next)
            target = v + advantage
            for k in range(self.cfg.critic_steps):
                for part in orders(i, k):
                    v, seen = self.value(x[part])
                    loss = 0.5 * np.sum((v - target[part]) ** 2) / max(len(v), 1)
                    g = ((v - target[part]) / max(len(v), 1))[:, None]
                    gradient, _ = mlp_gradient(
                        self.critic, seen, self.cfg.activation, g
                    )
                    moved = self.critic_adam.step(flat(self.critic), flat(gradient))
                    self.critic = pairs(moved)
        return loss

    def free(self, mu, mu_old, action, net, sigma):
        """0 for a sample whose action has become likelier, or less likely, by more than
        the limit in the direction of its pull: from the two densities themselves."""
        if self.cfg.ratio_limit is None:
            return np.ones((len(mu), 1))
        density = lambda m: np.prod(  # noqa: E731
            np.exp(-(((action - m) / sigma) ** 2) / 2), axis=1
        )
        moved = density(mu) / density(mu_old) - 1
        followed = np.where(net[:, 0] > 0, moved, -moved) > self.cfg.ratio_limit
        return 1.0 - followed[:, None]

    def fit_actor(self, b, advantage, orders, sigma):
        cfg, obs = self.cfg, b["obs"]
        unit = sigma if cfg.distance == "sigma" else 1.0
        mu_old = self.mu(obs)
        scaled = advantage
        if cfg.advantage_scale == "rms" and np.any(advantage != 0):
            scaled = advantage / np.sqrt(np.mean(advantage**2))
        weight = actor_weights(scaled, cfg.actor_update, cfg.softness)[:, None]
        failed = (advantage <= 0)[:, None] * float(cfg.nonpositive == "hold")
        centre = np.mean(weight) if cfg.centred else 0.0
        steps = cfg.actor_steps if np.any(weight != 0) else 0
        taken, within = 0, cfg.trust_region and cfg.beta_rule == "step"
        for k in range(steps):
            mu = self.mu(obs)
            distance = distance_of(mu_old, mu, cfg.distance) / unit
            if k > 0:
                if within:
                    self.beta = adapted_beta(self.beta, distance, cfg)
                near, far = cfg.d_target / 1.5, cfg.d_target * 1.5
                stops = cfg.early_stop and cfg.trust_region
                if stops and near <= distance <= far:
                    break
            for part in orders(k):
                mu, old, a = self.mu(obs[part]), mu_old[part], b["action"][part]
                w, hold = weight[part], cfg.penalty * self.beta + failed[part]
                free = self.free(mu, old, a, w - centre, sigma)
                error = free * (w * (mu - a) + centre * (a - old)) + hold * (mu - old)
                self.step_actor(obs[part], error)
                taken += 1
                if cfg.normalise_actor == "batch-norm":
                    self.passes.append(obs[part])
        if steps == 0 and cfg.normalise_actor == "batch-norm":
            self.passes.append(obs)
        mu = self.mu(obs)
        distance, used = distance_of(mu_old, mu, cfg.distance) / unit, self.beta
        if cfg.trust_region and cfg.beta_rule == "update" and steps:
            self.beta = adapted_beta(self.beta, distance, cfg)
        net = weight - centre
        limited = 1 - np.mean(self.free(mu, mu_old, b["action"], net, sigma))
        return taken, distance, used, limited

    def step_actor(self, obs, error):
        """One step of Adam along error . dmu/dtheta."""
        cfg, batch_norm = self.cfg, self.cfg.normalise_actor == "batch-norm"
        x = self.actor_input(obs)
        if batch_norm:  # the Jacobian sees the statistics of the batch
            mean, variance = two_pass(obs)
            x = (obs - mean) / np.sqrt(variance + 1e-5)
        out, seen = self.mean(x)
        g = error * (1 - out**2) if cfg.actor_output == "tanh" else error
        layers, at_input = mlp_gradient(self.actor, seen, cfg.activation, g)
        on = float(batch_norm)
        gradient = [on * (at_input * x).sum(0), on * at_input.sum(0), *flat(layers)]
        moved = self.actor_adam.step(self.actor_parameters(), gradient)
        self.scale, self.shift, self.actor = moved[0], moved[1], pairs(moved[2:])

    def update(self, batch, critic_orders, actor_orders, sigma):
        """One update; what it measured. The orders tell which real steps, by number, make
        up the minibatches of a pass."""
        played = np.asarray(batch.mask)
        b = {k: np.asarray(getattr(batch, k))[played] for k in batch._fields}
        x, x_next = self.critic_input(b["obs"]), self.critic_input(b["next_obs"])
        b = self.scaled(b, x, x_next)
        loss = self.fit_critic(b, x, x_next, critic_orders)
        advantage, v = self.advantages(b, x, x_next)
        fitted = self.fit_actor(b, advantage, actor_orders, sigma)
        taken, distance, beta, limited = fitted
        if self.cfg.trust_region and not self.cfg.beta_keep:
            self.beta = self.cfg.beta_start
        self.seen = np.concatenate([self.seen, b["obs"]])
        target = v + advantage
        return {
            "value_loss": loss,
            "explained_variance": 1 - np.var(advantage) / np.var(target),
            "positive_fraction": np.mean(advantage > 0),
            "advantage_rms": np.sqrt(np.mean(advantage**2)),
            "distance": distance,
            "beta": beta,
            "distance_ratio": distance / self.cfg.d_target,
            "limited_fraction": limited,
            "actor_steps": taken,
            "actor_epochs": taken / self.cfg.minibatches,
        }


def flat(layers):
    return [x for pair in layers for x in pair]


def pairs(arrays):
    return list(zip(arrays[::2], arrays[1::2], strict=True))
