"""Symbols of object files: the symbols they may leave undefined (memory functions, a short list of libm functions), and
the symbols they define."""

from __future__ import annotations

from collections.abc import Container

MEMORY = ("memcpy", "memmove", "memset")

# Functions of one and of two doubles; the float32 functions have the suffix f.
LIBM_UNARY = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "exp2", "log", "log10", "log1p",
    "log2", "sin", "sinh", "tan", "tanh",
)  # fmt: skip
LIBM_BINARY = ("atan2", "fmod", "hypot", "nextafter", "pow")
LIBM_TERNARY = ("fma",)

LIBM = frozenset(name + suffix for name in LIBM_UNARY + LIBM_BINARY + LIBM_TERNARY for suffix in ("", "f"))

# The external symbols that an object without calls of user-defined functions may use.
ALLOWED_UNDEFINED = LIBM | frozenset(MEMORY)

# Names that C, its libraries and compilers reserve. A user-defined function must not define such a symbol, because code
# in the same object would call it instead of the library function.
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
# Prefixes reserved for compilers (and their support functions such as __udivti3) and for LLVM text.
_PREFIXES = ("__", "_Unwind_", "llvm.", "tvm.", ".")

# Suffix of functions that only their own module calls.
PRIVATE_SUFFIX = "_private_"

# The loader looks up a name with this prefix before the name itself (csrc/src/core/module.c).
PREFIX = "__tvm_function_"


def is_reserved(name: str) -> bool:
    """Return whether a C library or a compiler reserves the symbol ``name``. The prefix ``__tvm_`` is reserved for this
    project."""
    return name in LIBRARY or (name.startswith(_PREFIXES) and not name.startswith("__tvm_"))


def symbol_of(name: str) -> str:
    """Return the symbol of the user-defined function ``name``: the name itself, unless it is reserved."""
    return PREFIX + name if is_reserved(name) else name


def means_library(callee: str, functions: Container[str]) -> bool:
    """Return whether an external call means a library function even if a function of the module has the same name.

    A function with a separate raw function takes packed arguments, which external calls do not pass.
    """
    return is_reserved(callee) and callee + "_compute_" in functions


def name_of(symbol: str) -> str:
    """Return the name of the user-defined function with the symbol ``symbol``."""
    return symbol.removeprefix(PREFIX)
