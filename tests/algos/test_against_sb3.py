"""PPO, DDPG, TD3 and SAC number for number against Stable-Baselines3, weights copied over."""

from types import SimpleNamespace

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from penfac.algos import ddpg, ddpg_learner, ppo, ppo_epochs, sac
from penfac.algos.base import Moment
from penfac.algos.replay import append
from penfac.core.returns import discounts, lambda_advantages, td_errors
from penfac.settings.ddpg import Config as DdpgConfig
from penfac.settings.ppo import Config as PpoConfig
from penfac.settings.sac import Config as SacConfig

pytestmark = pytest.mark.slow
th = pytest.importorskip("torch")
sb3 = pytest.importorskip("stable_baselines3")

N, M, B, HIDDEN = 3, 2, 16, (8, 8)
close = {"rtol": 1e-5, "atol": 1e-6}


class Still(gymnasium.Env):
    """Spaces alone: nothing is played in it."""

    observation_space = spaces.Box(-np.inf, np.inf, (N,), np.float32)
    action_space = spaces.Box(-1, 1, (M,), np.float32)

    def reset(self, *, seed=None, options=None):
        return np.zeros(N, np.float32), {}

    def step(self, action):
        return np.zeros(N, np.float32), 0.0, False, False, {}


def tensor(x):
    return th.as_tensor(np.array(x))


def copy_layers(layers, linears):
    """Our (W, b) pairs into torch's Linear modules."""
    with th.no_grad():
        for (w, b), linear in zip(layers, linears, strict=True):
            linear.weight.copy_(tensor(w).T)
            linear.bias.copy_(tensor(b))


def linears(module):
    return [m for m in module.modules() if isinstance(m, th.nn.Linear)]


def same_layers(layers, theirs, what=lambda p: p, **how):
    """Our (W, b) pairs, or gradients of them, and what torch has."""
    for (w, b), linear in zip(layers, theirs, strict=True):
        np.testing.assert_allclose(
            w, what(linear.weight).detach().numpy().T, **(close | how)
        )
        np.testing.assert_allclose(
            b, what(linear.bias).detach().numpy(), **(close | how)
        )


def quiet(model):
    """A logger that keeps what it is told."""
    said = {}
    model.set_logger(SimpleNamespace(record=lambda k, v, **_: said.__setitem__(k, v)))
    return said


# --- PPO ------------------------------------------------------------------------------


def test_advantages_equal_those_of_the_rollout_buffer():
    """Four worlds of 40 steps with ends anywhere: GAE and returns."""
    from stable_baselines3.common.buffers import RolloutBuffer

    rng, steps, worlds = np.random.default_rng(0), 40, 4
    reward, v = (rng.normal(size=(steps, worlds)).astype("f") for _ in range(2))
    done, final = rng.random((steps, worlds)) < 0.1, rng.normal(size=worlds).astype("f")
    buffer = RolloutBuffer(
        steps, Still.observation_space, Still.action_space, "cpu", 0.95, 0.99, worlds
    )
    buffer.rewards[:], buffer.values[:] = reward, v
    buffer.episode_starts[0], buffer.episode_starts[1:] = 1.0, done[:-1]
    buffer.compute_returns_and_advantage(tensor(final), done[-1])

    column = lambda x: jnp.asarray(x.T.reshape(-1))  # noqa: E731  world after world
    v_next = np.concatenate([v[1:], final[None]])
    last = done.copy()
    last[-1] = True
    ends = column(done)
    discount = discounts(ends, jnp.zeros_like(ends), 0.99)
    delta = td_errors(column(reward), discount, column(v), column(v_next))
    ours = lambda_advantages(delta, discount, column(last), 0.95)
    np.testing.assert_allclose(ours, column(buffer.advantages), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        ours + column(v), column(buffer.returns), rtol=1e-5, atol=1e-5
    )


PPO = {
    "gamma": 0.97, "lam": 0.9, "lr": 3e-3, "entropy_weight": 0.02, "sigma": 0.6,
    "value_weight": 0.7, "clip": 0.15, "actor_hidden": HIDDEN, "critic_hidden": HIDDEN,
    "normalise_obs": False, "normalise_returns": False,
}  # fmt: skip


def ppo_pair(spec, **settings):
    """Our learner and SB3's, with the same weights."""
    cfg = PpoConfig(**(PPO | settings))
    plan, numbers = ppo.PPO.plan(cfg, spec), ppo.PPO.numbers(cfg)
    state = ppo.init(jax.random.key(0), plan, numbers)
    model = sb3.PPO(
        "MlpPolicy", Still(), n_steps=64, batch_size=16, n_epochs=cfg.epochs,
        learning_rate=cfg.lr, gamma=cfg.gamma, gae_lambda=cfg.lam, clip_range=cfg.clip,
        ent_coef=cfg.entropy_weight, vf_coef=cfg.value_weight,
        max_grad_norm=cfg.max_grad_norm, normalize_advantage=cfg.normalise_advantage,
        policy_kwargs={"net_arch": list(HIDDEN)}, device="cpu",
    )  # fmt: skip
    policy = model.policy
    actor = [*linears(policy.mlp_extractor.policy_net), policy.action_net]
    critic = [*linears(policy.mlp_extractor.value_net), policy.value_net]
    copy_layers(state.networks.actor.layers, actor)
    copy_layers(state.networks.critic, critic)
    with th.no_grad():
        policy.log_std.copy_(tensor(state.networks.log_sigma))
    return cfg, plan, numbers, state, model, actor, critic


def samples_of(state, batch, plan, numbers, now):
    made = ppo.prepare(state, batch, plan, numbers, now)
    return made, SimpleNamespace(
        observations=tensor(made.x), actions=tensor(made.action),
        old_values=tensor(made.v), old_log_prob=tensor(made.log_likelihood),
        advantages=tensor(made.advantage), returns=tensor(made.target),
    )  # fmt: skip


def whole(make_batch):
    """No padding, whose rows SB3 has not got."""
    return make_batch(
        rows=[(5, "terminated", 0), (7, "truncated", 0), (20, "cut", 0), (32, "cut", 0)]
    )


@pytest.mark.parametrize("standardise", [True, False])
def test_the_ppo_loss_and_its_gradient(standardise, spec, make_batch):
    """Likelihoods, ratio, losses, entropy, divergence and every gradient, at a policy
    that has moved away from the one that played."""
    cfg, plan, numbers, state, model, actor, critic = ppo_pair(
        spec, normalise_advantage=standardise
    )
    now = Moment(jax.random.key(0), jnp.float32(0), jnp.float32(1))
    made, data = samples_of(state, whole(make_batch), plan, numbers, now)
    values, log_prob, entropy = model.policy.evaluate_actions(
        data.observations, data.actions
    )
    np.testing.assert_allclose(made.v, values.detach().numpy()[:, 0], **close)
    np.testing.assert_allclose(made.log_likelihood, log_prob.detach().numpy(), **close)

    rng = np.random.default_rng(1)
    networks = jax.tree.map(
        lambda x: x + jnp.asarray(0.2 * rng.normal(size=x.shape), x.dtype),
        state.networks,
    )
    copy_layers(networks.actor.layers, actor)
    copy_layers(networks.critic, critic)
    with th.no_grad():
        model.policy.log_std.copy_(tensor(networks.log_sigma))

    grad, report = jax.jit(jax.grad(
        lambda n: ppo_epochs.surrogate_loss(n, made, numbers.clip, now.sigma, plan, numbers),
        has_aux=True,
    ))(networks)  # fmt: skip
    values, log_prob, entropy = model.policy.evaluate_actions(
        data.observations, data.actions
    )
    advantage = data.advantages
    if standardise:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    log_ratio = log_prob - data.old_log_prob
    ratio, clip = th.exp(log_ratio), cfg.clip
    clamped = th.clamp(ratio, 1 - clip, 1 + clip)
    policy_loss = -th.min(advantage * ratio, advantage * clamped).mean()
    value_loss = th.nn.functional.mse_loss(data.returns, values.flatten())
    loss = (
        policy_loss
        - cfg.entropy_weight * entropy.mean()
        + cfg.value_weight * value_loss
    )
    loss.backward()
    fraction = (th.abs(ratio - 1) > clip).float().mean()
    divergence = ((th.exp(log_ratio) - 1) - log_ratio).mean()
    theirs = [policy_loss, value_loss / 2, entropy.mean(), divergence, fraction]
    expected = [x.item() for x in theirs]
    np.testing.assert_allclose(report, expected, rtol=2e-5, atol=1e-6)
    assert 0.1 < fraction < 0.99
    loose = {"rtol": 1e-4, "atol": 1e-6}
    same_layers(grad.actor.layers, actor, lambda p: p.grad, **loose)
    same_layers(grad.critic, critic, lambda p: p.grad, **loose)
    np.testing.assert_allclose(
        grad.log_sigma, model.policy.log_std.grad.numpy(), **loose
    )


def test_a_whole_ppo_update(spec, make_batch):
    """SB3's own train() on our batch in our order: 2 epochs of 4 minibatches, every
    weight and everything both programs report."""
    _, plan, numbers, state, model, actor, critic = ppo_pair(
        spec, epochs=2, minibatches=4
    )
    batch = whole(make_batch)
    now = Moment(jax.random.key(0), jnp.float32(0), jnp.float32(1))
    _, data = samples_of(state, batch, plan, numbers, now)
    orders = [ppo_epochs.shuffled(k, 64, 4) for k in jax.random.split(now.key, 2)]
    epochs = iter(orders)

    def get(batch_size):
        for rows in np.array(next(epochs)):
            yield SimpleNamespace(**{k: x[rows] for k, x in vars(data).items()})

    model.rollout_buffer = SimpleNamespace(
        get=get, values=data.old_values.numpy(), returns=data.returns.numpy()
    )
    said = quiet(model)
    model.train()
    new, metrics = jax.jit(ppo.update, static_argnums=2)(
        state, batch, plan, numbers, now
    )
    same_layers(new.networks.actor.layers, actor, rtol=1e-3, atol=1e-5)
    same_layers(new.networks.critic, critic, rtol=1e-3, atol=1e-5)
    log_std = model.policy.log_std.detach().numpy()
    np.testing.assert_allclose(new.networks.log_sigma, log_std, rtol=1e-4)
    for ours, theirs in (
        (metrics.policy_loss, said["train/policy_gradient_loss"]),
        (2 * metrics.value_loss, said["train/value_loss"]),
        (-metrics.entropy, said["train/entropy_loss"]),
        (metrics.approx_kl, said["train/approx_kl"]),
        (metrics.explained_variance, said["train/explained_variance"]),
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-6)


# --- DDPG and TD3 ---------------------------------------------------------------------

DDPG = {
    "gamma": 0.97, "critic_lr": 3e-3, "actor_lr": 3e-3, "tau": 0.05, "replay": 64,
    "learning_starts": 1, "batch_size": B, "actor_hidden": HIDDEN, "adam_eps": 1e-8,
    "critic_hidden": HIDDEN, "activation": "relu", "init": "uniform",
    "steps_per_world": 5,
}  # fmt: skip
KINDS = {
    "DDPG": {},
    "TD3": {"critics": 2, "actor_delay": 2, "target_noise": 0.2},
}


def critics_of(networks, k):
    return [(w[k], b[k]) for w, b in networks.critics]


def ddpg_pair(kind, spec, batch):
    """Our learner with a filled replay, and SB3's with the same weights."""
    cfg = DdpgConfig(**(DDPG | KINDS[kind]))
    plan, numbers = ddpg.DDPG.plan(cfg, spec), ddpg.DDPG.numbers(cfg)
    state = ddpg.init(jax.random.key(0), plan, numbers)
    other = ddpg.init(jax.random.key(9), plan, numbers).learner.online
    # target networks of their own, else nothing tells them from the learned ones
    learner = state.learner._replace(target=other)
    replay = append(state.replay, batch, plan.one_world)
    extra = {} if kind == "DDPG" else {
        "policy_delay": 2, "target_policy_noise": 0.2, "target_noise_clip": 0.5,
    }  # fmt: skip
    model = getattr(sb3, kind)(
        "MlpPolicy", Still(), learning_rate=cfg.actor_lr, gamma=cfg.gamma, tau=cfg.tau,
        buffer_size=100, device="cpu", policy_kwargs={"net_arch": list(HIDDEN)}, **extra,
    )  # fmt: skip
    for networks, actor, critic in (
        (learner.online, model.actor, model.critic),
        (learner.target, model.actor_target, model.critic_target),
    ):
        copy_layers(networks.actor.layers, linears(actor))
        for k, q in enumerate(critic.q_networks):
            copy_layers(critics_of(networks, k), linears(q))
    return cfg, plan, numbers, learner, replay, state.observed, model


def theirs(rows):
    """A sample of ours as SB3's replay buffer gives one."""
    ended = np.asarray(rows.discount) == 0
    return SimpleNamespace(
        observations=tensor(rows.obs), actions=tensor(rows.action), discounts=None,
        next_observations=tensor(rows.next_obs), rewards=tensor(rows.reward)[:, None],
        dones=tensor(ended.astype("f"))[:, None],
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_steps_of_sb3(kind, spec, batch):
    """Its own train() on our samples with our noise, four times: every weight of the
    four networks, and the losses."""
    cfg, plan, numbers, learner, replay, observed, model = ddpg_pair(kind, spec, batch)
    # half a mean square has half the gradient: so that Adam's steps are equal
    for group in model.critic.optimizer.param_groups:
        group["eps"] = 2e-8
    normal = jax.random.normal
    learn = jax.jit(ddpg_learner.learn, static_argnums=4)
    said, least = quiet(model), []
    for k in range(4):
        key = jax.random.key(100 + k)
        sample_key, smooth_key = jax.random.split(key)
        rows = jax.jit(ddpg_learner.minibatch, static_argnums=2)(
            replay, sample_key, plan, numbers
        )
        data = theirs(rows)
        noise = tensor(cfg.target_noise * np.asarray(normal(smooth_key, (B, M))))
        data.actions = Drawn(data.actions, noise)
        model.replay_buffer = SimpleNamespace(sample=lambda *_, data=data, **__: data)
        model.train(gradient_steps=1, batch_size=B)
        learner, losses = learn(learner, replay, observed, key, plan, numbers)
        np.testing.assert_allclose(2 * losses[0], said["train/critic_loss"], rtol=1e-4)
        if (k + 1) % cfg.actor_delay == 0:
            np.testing.assert_allclose(
                losses[2], said["train/actor_loss"], rtol=1e-4, atol=1e-6
            )  # fmt: skip
        least.append(np.asarray(rows.discount).min())
    assert min(least) == 0  # a termination was among them
    for networks, actor, critic in (
        (learner.online, model.actor, model.critic),
        (learner.target, model.actor_target, model.critic_target),
    ):
        same_layers(networks.actor.layers, linears(actor), rtol=1e-3, atol=1e-5)
        for k, q in enumerate(critic.q_networks):
            same_layers(critics_of(networks, k), linears(q), rtol=1e-3, atol=1e-5)


class Drawn(th.Tensor):
    """Actions whose copy, told to draw normal numbers, becomes the given ones."""

    @staticmethod
    def __new__(cls, actions, noise):
        drawn = th.Tensor._make_subclass(cls, actions)
        drawn.noise = noise
        return drawn

    __torch_function__ = th._C._disabled_torch_function_impl

    def clone(self):
        noise = self.noise
        return SimpleNamespace(data=SimpleNamespace(normal_=lambda *_: noise))


@pytest.mark.parametrize("kind", KINDS)
def test_the_target_and_the_actors_gradient(kind, spec, batch):
    """R + gamma min Q'(s', clipped mu'(s') + noise), and -grad of mean Q_1(s, mu(s))."""
    cfg, plan, numbers, learner, replay, observed, model = ddpg_pair(kind, spec, batch)
    key = jax.random.key(3)
    rows = ddpg_learner.minibatch(replay, key, plan, numbers)
    data = theirs(rows)
    off = ddpg_learner.running_inputs(
        observed, numbers.normalise_critic.running, numbers.obs_clip
    )
    normal = jax.random.normal(key, (B, M))
    ours = ddpg_learner.critic_target(
        learner.target, rows, observed, off, normal, plan, numbers
    )
    noise = tensor(cfg.target_noise * np.asarray(normal))
    with th.no_grad():
        action = model.actor_target(data.next_observations) + noise.clamp(-0.5, 0.5)
        q = model.critic_target(data.next_observations, action.clamp(-1, 1))
        least, _ = th.min(th.cat(q, dim=1), dim=1, keepdim=True)
        target = data.rewards + (1 - data.dones) * cfg.gamma * least
    np.testing.assert_allclose(ours, target[:, 0].numpy(), **close)

    def loss(actor):
        action = ddpg.actor_mean(actor, rows.obs, off, plan)
        q = ddpg_learner.q_values(learner.online.critics, rows.obs, action, off, plan)
        return ddpg_learner.dpg_loss(q[0])

    grad = jax.jit(jax.grad(loss))(learner.online.actor)
    value = -model.critic.q1_forward(
        data.observations, model.actor(data.observations)
    ).mean()
    value.backward()
    np.testing.assert_allclose(loss(learner.online.actor), value.item(), **close)
    same_layers(grad.layers, linears(model.actor), lambda p: p.grad, rtol=1e-4)


# --- SAC --------------------------------------------------------------------------------

SAC = {
    "gamma": 0.97, "critic_lr": 3e-3, "actor_lr": 3e-3, "temperature_lr": 3e-3,
    "tau": 0.05, "replay": 64, "learning_starts": 1, "batch_size": B,
    "actor_hidden": HIDDEN, "critic_hidden": HIDDEN, "temperature_start": 0.3,
    "steps_per_world": 5,
}  # fmt: skip


def sac_pair(spec, batch, **settings):
    """Our learner with a filled replay, and SB3's with the same weights."""
    cfg = SacConfig(**(SAC | settings))
    plan, numbers = sac.SAC.plan(cfg, spec), sac.SAC.numbers(cfg)
    state = sac.init(jax.random.key(0), plan, numbers)
    # target critics of their own, else nothing tells them from the learned ones
    target = sac.init(jax.random.key(9), plan, numbers).learner.critics
    learner = state.learner._replace(target=target)
    replay = append(state.replay, batch, plan.one_world)
    fixed = cfg.temperature
    model = sb3.SAC(
        "MlpPolicy", Still(), learning_rate=cfg.actor_lr, gamma=cfg.gamma, tau=cfg.tau,
        buffer_size=100, device="cpu", policy_kwargs={"net_arch": list(HIDDEN)},
        ent_coef="auto_0.3" if fixed is None else fixed,
        target_entropy=float(M * cfg.target_entropy) if settings else "auto",
    )  # fmt: skip
    # it adds 1e-6 to the slope of tanh; ours is exact without
    model.actor.action_dist.epsilon = 0.0
    copy_layers(learner.actor.layers, mean_layers(model))
    copy_layers(learner.actor.spread, [model.actor.log_std])
    for critics, theirs in (
        (learner.critics, model.critic),
        (learner.target, model.critic_target),
    ):
        for k, q in enumerate(theirs.q_networks):
            copy_layers([(w[k], b[k]) for w, b in critics], linears(q))
    return plan, numbers, learner, replay, sac.inputs_of(state.observed, numbers), model


def mean_layers(model):
    return [*linears(model.actor.latent_pi), model.actor.mu]


@pytest.mark.parametrize(
    "settings",
    [{}, {"temperature": 0.2}, {"target_entropy": 0.4}],
    ids=["learned", "fixed", "another target"],
)
def test_gradient_steps_of_sb3s_sac(settings, spec, batch, monkeypatch):
    """Its own train() on our samples with our noise, four times: every weight, the
    temperature, and the losses."""
    plan, numbers, learner, replay, inputs, model = sac_pair(spec, batch, **settings)
    learn, said, least = jax.jit(sac.learn, static_argnums=4), quiet(model), []
    for k in range(4):
        key = jax.random.key(100 + k)
        sample_key, *noise_keys = jax.random.split(key, 3)
        rows = ddpg_learner.minibatch(replay, sample_key, plan, numbers)
        data = theirs(rows)
        draws = iter([tensor(jax.random.normal(key, (B, M))) for key in noise_keys])
        monkeypatch.setattr(
            "torch.distributions.normal._standard_normal",
            lambda *_, draws=draws, **__: next(draws),
        )
        model.replay_buffer = SimpleNamespace(sample=lambda *_, data=data, **__: data)
        model.train(gradient_steps=1, batch_size=B)
        alpha = sac.temperature_of(learner, numbers)
        learner, losses = learn(learner, replay, inputs, key, plan, numbers)
        np.testing.assert_allclose(alpha, said["train/ent_coef"], rtol=1e-5)
        np.testing.assert_allclose(losses[0], said["train/critic_loss"], rtol=1e-4)
        np.testing.assert_allclose(losses[2], said["train/actor_loss"], rtol=1e-4)
        least.append(np.asarray(rows.discount).min())
    assert min(least) == 0  # a termination was among them
    loose = {"rtol": 1e-3, "atol": 1e-5}
    same_layers(learner.actor.layers, mean_layers(model), **loose)
    same_layers(learner.actor.spread, [model.actor.log_std], **loose)
    for critics, networks in (
        (learner.critics, model.critic),
        (learner.target, model.critic_target),
    ):
        for k, q in enumerate(networks.q_networks):
            same_layers([(w[k], b[k]) for w, b in critics], linears(q), **loose)
    if model.log_ent_coef is not None:
        log_alpha = model.log_ent_coef.item()
        np.testing.assert_allclose(learner.log_temperature, log_alpha, rtol=1e-4)
        assert abs(log_alpha - np.log(0.3)) > 5e-3


def test_likelihoods_and_the_soft_target_of_sb3(spec, batch, monkeypatch):
    """Actions, log pi and R + gamma (min Q' - alpha log pi) on the same noise."""
    plan, numbers, learner, replay, inputs, model = sac_pair(spec, batch)
    rows = ddpg_learner.minibatch(replay, jax.random.key(3), plan, numbers)
    data, key = theirs(rows), jax.random.key(4)
    noise = tensor(jax.random.normal(key, (B, M)))
    monkeypatch.setattr(
        "torch.distributions.normal._standard_normal", lambda *_, **__: noise
    )
    action, log_pi = sac.draw(learner.actor, rows.next_obs, key, inputs, plan)
    alpha = sac.temperature_of(learner, numbers)
    target = sac.critic_target(learner, rows, alpha, key, inputs, plan)
    with th.no_grad():
        acted, log_prob = model.actor.action_log_prob(data.next_observations)
        least, _ = th.min(
            th.cat(model.critic_target(data.next_observations, acted), dim=1), dim=1
        )
        value = least - 0.3 * log_prob
        expected = data.rewards[:, 0] + (1 - data.dones[:, 0]) * model.gamma * value
        mode = model.actor(data.next_observations, deterministic=True)
    np.testing.assert_allclose(action, acted.numpy(), **close)
    np.testing.assert_allclose(log_pi, log_prob.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(target, expected.numpy(), rtol=1e-4, atol=1e-5)
    mu = sac.actor_mean(learner.actor, rows.next_obs, inputs, plan)
    np.testing.assert_allclose(mu, mode.numpy(), **close)
