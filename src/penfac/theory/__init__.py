"""The paper's statements, checked with numbers  (Sec. 4, Sec. 5.1, appendix).

Training uses nothing of this package. Each statement has two sides, computed from their
definitions by routes that share no code; `statements` lists them all.
"""
