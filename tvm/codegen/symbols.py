"""Names of objects: those they may leave undefined (memory functions, a short list of libm), and those they define."""

from __future__ import annotations

from collections.abc import Container

MEMORY = ("memcpy", "memmove", "memset")

# Functions of one and of two doubles; the float32 forms have an f at the end.
LIBM_UNARY = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "exp2", "log", "log10", "log1p",
    "log2", "sin", "sinh", "tan", "tanh",
)  # fmt: skip
LIBM_BINARY = ("atan2", "fmod", "hypot", "nextafter", "pow")
LIBM_TERNARY = ("fma",)

LIBM = frozenset(name + suffix for name in LIBM_UNARY + LIBM_BINARY + LIBM_TERNARY for suffix in ("", "f"))

# Everything an object without calls of a user's own functions may refer to.
ALLOWED_UNDEFINED = LIBM | frozenset(MEMORY)

# Names that C, its libraries and compilers give a meaning of their own. A function of a user must not define them: code
# in the same object would call it in place of the library's.
_MATH = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh drem erf erfc exp exp10 exp2 expm1 fabs fdim
    finite floor fma fmax fmaximum fmaximum_num fmin fminimum fminimum_num fmod frexp gamma hypot ilogb isinf isnan j0
    j1 jn ldexp lgamma lgamma_r llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter
    nexttoward pow pow10 remainder remquo rint round roundeven scalb scalbln scalbn significand sin sincos sincospi
    sinh sqrt tan tanh tgamma trunc y0 y1 yn
    cabs cacos cacosh carg casin casinh catan catanh ccos ccosh cexp cimag clog clog10 conj cpow cproj creal csin
    csinh csqrt ctan ctanh acospi asinpi atanpi atan2pi cospi sinpi tanpi
"""
_LIBC = """
    abort abs access aligned_alloc alloca alphasort asprintf atexit atof atoi atol atoll bcmp bcopy bsearch bzero calloc
    clearerr close exit fclose feof ferror ffs ffsl ffsll fflush fgetc fgets fopen fork fprintf fputc fputs fread free
    fscanf fseek ftell fwrite getc getchar getenv gets index isalnum isalpha isascii isblank iscntrl isdigit isgraph
    islower isprint ispunct isspace isupper isxdigit kill labs llabs longjmp malloc mblen memalign memccpy memchr memcmp
    memcpy memmem memmove mempcpy memrchr memset memset_pattern4 memset_pattern8 memset_pattern16 mkdir open perror
    posix_memalign printf putc putchar puts qsort raise rand read realloc reallocf remove rename rewind rindex scanf
    setbuf setjmp setlocale signal snprintf sprintf srand sscanf stat stpcpy stpncpy strcasecmp strcat strchr strcmp
    strcoll strcpy strcspn strdup strerror strlcat strlcpy strlen strncasecmp strncat strncmp strncpy strndup strnlen
    strpbrk strrchr strspn strstr strtod strtof strtok strtol strtold strtoll strtoul strtoull system time toascii
    tolower toupper ungetc unlink vfprintf vprintf vsnprintf vsprintf wcslen wmemset write
    _init _fini _start _end _edata _etext _setjmp _longjmp TVMBackendRegisterSystemLibSymbol
"""
LIBRARY = (
    frozenset(name + suffix for name in _MATH.split() for suffix in ("", "f", "l"))
    | frozenset(_LIBC.split())
    | ALLOWED_UNDEFINED
)
# Names that begin so belong to compilers (and what they call: __udivti3 and its kin) and to LLVM text.
_PREFIXES = ("__", "_Unwind_", "llvm.", "tvm.", ".")

# Names of functions that only their own module calls end with this.
PRIVATE_SUFFIX = "_private_"

# The loader asks a library for this before the name itself (csrc/src/core/module.c).
PREFIX = "__tvm_function_"


def is_reserved(name: str) -> bool:
    """Whether a C library or a compiler owns the symbol ``name``. Names with ``__tvm_`` are ours."""
    return name in LIBRARY or (name.startswith(_PREFIXES) and not name.startswith("__tvm_"))


def symbol_of(name: str) -> str:
    """The symbol of the user's function ``name``: the name itself, unless it is reserved."""
    return PREFIX + name if is_reserved(name) else name


def means_library(callee: str, functions: Container[str]) -> bool:
    """Whether an extern call means a library's function, also where a function of the module has its name.

    A function that has a raw entry beside it takes packed arguments, which extern calls do not pass.
    """
    return is_reserved(callee) and callee + "_compute_" in functions


def name_of(symbol: str) -> str:
    """The name of the user's function that has ``symbol``."""
    return symbol.removeprefix(PREFIX)
