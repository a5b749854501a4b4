"""mlx.nn where MLX's folder of that name is not beside this file."""

from mlx._from_mlx import take

take(__name__)
