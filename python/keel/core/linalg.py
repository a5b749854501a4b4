"""The names of mlx.core.linalg. Decompositions are not built yet."""

from keel.core._later import later

globals().update(
    later(
        "linalg",
        "cholesky cholesky_inv cross det eig eigh eigvals eigvalsh inv lu lu_factor norm pinv qr slogdet "
        "solve solve_triangular svd tri_inv",
    )
)
