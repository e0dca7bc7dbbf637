"""Floats of any width with one rounding, over exact rationals."""
from fractions import Fraction
from math import isqrt

FMT = {16: (5, 10), 32: (8, 23), 64: (11, 52), "bf": (8, 7)}


def width(fmt):
    return 16 if fmt == "bf" else fmt


def parts(fmt, b):
    e, m = FMT[fmt]
    return b >> (e + m) & 1, b >> m & ((1 << e) - 1), b & ((1 << m) - 1)


def is_nan(fmt, b):
    e, m = FMT[fmt]
    _, x, f = parts(fmt, b)
    return x == (1 << e) - 1 and f != 0


def is_snan(fmt, b):
    return is_nan(fmt, b) and not b >> (FMT[fmt][1] - 1) & 1


def is_inf(fmt, b):
    e, _ = FMT[fmt]
    _, x, f = parts(fmt, b)
    return x == (1 << e) - 1 and f == 0


def sign(fmt, b):
    return parts(fmt, b)[0]


def is_zero(fmt, b):
    return not parts(fmt, b)[1] and not parts(fmt, b)[2]


def is_denorm(fmt, b):
    return not parts(fmt, b)[1] and parts(fmt, b)[2]


def quiet(fmt, b):
    return b | 1 << (FMT[fmt][1] - 1)


def inf(fmt, s):
    e, m = FMT[fmt]
    return s << (e + m) | ((1 << e) - 1) << m


def qnan(fmt):
    return quiet(fmt, inf(fmt, 1))


def zero(fmt, s):
    return s << (width(fmt) - 1)


def frac(fmt, b):
    e, m = FMT[fmt]
    s, x, f = parts(fmt, b)
    bias = (1 << (e - 1)) - 1
    v = Fraction(f, 1 << m) if not x else 1 + Fraction(f, 1 << m)
    p = (x or 1) - bias
    v = v * (1 << p) if p >= 0 else v / (1 << -p)
    return -v if s else v


def ilog2(v):
    n = v.numerator.bit_length() - v.denominator.bit_length()
    if (v.numerator << max(-n, 0)) < (v.denominator << max(n, 0)):
        n -= 1
    return n


def encode(fmt, v, rnd=0, zs=0):
    """v exact, rounded once. rnd: 0 nearest even, 1 up, 2 down, 3 zero. zs: sign of a zero."""
    e, m = FMT[fmt]
    bias = (1 << (e - 1)) - 1
    if v == 0:
        return zero(fmt, zs)
    s = 1 if v < 0 else 0
    a = abs(v)
    p = max(ilog2(a), 1 - bias)
    q = a * (1 << m)
    q = q / (1 << p) if p >= 0 else q * (1 << -p)
    n, r = divmod(q.numerator, q.denominator)
    rest = Fraction(r, q.denominator)
    half = Fraction(1, 2)
    if rnd == 0:
        up = rest > half or (rest == half and n & 1)
    elif rnd == 1:
        up = rest > 0 and not s
    elif rnd == 2:
        up = rest > 0 and s
    else:
        up = False
    n += 1 if up else 0
    if n >= 2 << m:
        n >>= 1
        p += 1
    if n >> m == 0:
        return s << (e + m) | n
    if p > bias:
        if rnd == 0 or (rnd == 1 and not s) or (rnd == 2 and s):
            return inf(fmt, s)
        return inf(fmt, s) - 1
    return s << (e + m) | (p + bias) << m | (n & ((1 << m) - 1))


def flush(fmt, b):
    return zero(fmt, sign(fmt, b)) if is_denorm(fmt, b) else b


def propagate(fmt, *args):
    for b in args:
        if is_nan(fmt, b):
            return quiet(fmt, b)
    return None


def add(fmt, a, b, rnd=0):
    n = propagate(fmt, a, b)
    if n is not None:
        return n
    if is_inf(fmt, a) and is_inf(fmt, b):
        return a if a == b else qnan(fmt)
    if is_inf(fmt, a):
        return a
    if is_inf(fmt, b):
        return b
    zs = sign(fmt, a) if sign(fmt, a) == sign(fmt, b) else (1 if rnd == 2 else 0)
    return encode(fmt, frac(fmt, a) + frac(fmt, b), rnd, zs)


def neg(fmt, a):
    return a ^ 1 << (width(fmt) - 1)


def mul(fmt, a, b, rnd=0):
    n = propagate(fmt, a, b)
    if n is not None:
        return n
    s = sign(fmt, a) ^ sign(fmt, b)
    if is_inf(fmt, a) or is_inf(fmt, b):
        return qnan(fmt) if is_zero(fmt, a) or is_zero(fmt, b) else inf(fmt, s)
    return encode(fmt, frac(fmt, a) * frac(fmt, b), rnd, s)


def fma(fmt, a, b, c, rnd=0):
    n = propagate(fmt, a, b, c)
    if n is not None:
        return n
    s = sign(fmt, a) ^ sign(fmt, b)
    if is_inf(fmt, a) or is_inf(fmt, b):
        if is_zero(fmt, a) or is_zero(fmt, b):
            return qnan(fmt)
        if is_inf(fmt, c) and sign(fmt, c) != s:
            return qnan(fmt)
        return inf(fmt, s)
    if is_inf(fmt, c):
        return c
    zs = s if s == sign(fmt, c) else (1 if rnd == 2 else 0)
    return encode(fmt, frac(fmt, a) * frac(fmt, b) + frac(fmt, c), rnd, zs)


def div(fmt, a, b, rnd=0):
    n = propagate(fmt, a, b)
    if n is not None:
        return n
    s = sign(fmt, a) ^ sign(fmt, b)
    if is_inf(fmt, a):
        return qnan(fmt) if is_inf(fmt, b) else inf(fmt, s)
    if is_inf(fmt, b):
        return zero(fmt, s)
    if is_zero(fmt, b):
        return qnan(fmt) if is_zero(fmt, a) else inf(fmt, s)
    return encode(fmt, frac(fmt, a) / frac(fmt, b), rnd, s)


def cvt(to, fmt, a, rnd=0):
    if is_nan(fmt, a):
        s, _, f = parts(fmt, a)
        d = FMT[to][1] - FMT[fmt][1]
        f = f << d if d > 0 else f >> -d
        return quiet(to, inf(to, s) | f)
    if is_inf(fmt, a):
        return inf(to, sign(fmt, a))
    return encode(to, frac(fmt, a), rnd, sign(fmt, a))


def less(fmt, a, b):
    if is_nan(fmt, a) or is_nan(fmt, b):
        return None
    big = lambda x: (Fraction(10) ** 400) * (-1 if sign(fmt, x) else 1) if is_inf(fmt, x) else frac(fmt, x)
    x, y = big(a), big(b)
    return -1 if x < y else 1 if x > y else 0


def rint(fmt, a, how):
    """how: trunc floor ceil even"""
    if is_nan(fmt, a):
        return quiet(fmt, a)
    if is_inf(fmt, a):
        return a
    v = frac(fmt, a)
    n = v.numerator // v.denominator
    if how == "trunc":
        n = -((-v.numerator) // v.denominator) if v < 0 else n
    elif how == "ceil":
        n = -((-v.numerator) // v.denominator)
    elif how == "even":
        r = v - n
        n += 1 if r > Fraction(1, 2) or (r == Fraction(1, 2) and n & 1) else 0
    return encode(fmt, Fraction(n), 0, sign(fmt, a))


def root(fmt, v, rnd):
    """The square root of a positive rational, rounded once."""
    k = 2 * FMT[fmt][1] + 816 + (2200 if fmt == 64 else 0)
    n = isqrt((v.numerator << k) // v.denominator)
    exact = n * n * v.denominator == v.numerator << k
    return encode(fmt, Fraction(2 * n + (0 if exact else 1), 2 << (k // 2)), rnd)


def sqrt(fmt, a, rnd=0):
    if is_nan(fmt, a):
        return quiet(fmt, a)
    if is_zero(fmt, a):
        return a
    if sign(fmt, a):
        return qnan(fmt)
    if is_inf(fmt, a):
        return a
    return root(fmt, frac(fmt, a), rnd)


def rsq(fmt, a, rnd=0):
    """1 / sqrt(a), rounded once."""
    if is_nan(fmt, a):
        return quiet(fmt, a)
    if is_zero(fmt, a):
        return inf(fmt, sign(fmt, a))
    if sign(fmt, a):
        return qnan(fmt)
    if is_inf(fmt, a):
        return 0
    return root(fmt, 1 / frac(fmt, a), rnd)
