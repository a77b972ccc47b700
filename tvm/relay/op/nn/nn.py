"""Neural network operators under the module path of Apache TVM."""

from .activation import *  # noqa: F403
from .convolution import *  # noqa: F403
from .dense import *  # noqa: F403
from .normalization import *  # noqa: F403
from .packed import *  # noqa: F403
from .pooling import *  # noqa: F403
from .space import *  # noqa: F403
from .transposed import *  # noqa: F403
