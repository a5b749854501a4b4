"""Operations of models that are computed in one pass: norms, rotary embedding, attention."""

from keel import _core as _c

globals().update({k: v for k, v in vars(_c._fast).items() if not k.startswith("_")})
