"""Evaluates the manual's pseudocode, one lane at a time."""
import re
from fractions import Fraction
import soft

TOK = re.compile(r"""
 //[^\n]*|(?P<ws>\s+)
 |(?P<fnum>(?:16')?\d+\.\d+F?)
 |(?P<tnum>\d+'0x[0-9a-fA-F]+|\d+'\d+U?|\d+'[UIFB](?=[;\[\s]))
 |(?P<cast>\d+'[UIFB]?(?=\())
 |(?P<hex>0x[0-9a-fA-F]+(?:ULL|LL|U|L)?)
 |(?P<num>\d+(?:ULL|LL|U|L|F)?)
 |(?P<id>[A-Za-z_][A-Za-z_0-9]*)
 |(?P<op>\*\*|\+:|\+=|-=|<>|<=|>=|==|!=|&&|\|\||<<|>>|[-+*/%<>=!~&|^?:;,.(){}\[\]])
""", re.X)


def tokens(s):
    out, i = [], 0
    while i < len(s):
        m = TOK.match(s, i)
        if not m:
            raise SyntaxError("at %r" % s[i:i + 30])
        i = m.end()
        if m.lastgroup and m.lastgroup != "ws":
            out.append((m.lastgroup, m.group()))
    out.append(("end", ""))
    return out


class V:
    """k: u i f b; w: bits (fmt 'bf' for bf16); b: the bits."""
    __slots__ = ("k", "w", "b")

    def __init__(self, k, w, b):
        self.k, self.w = k, w
        self.b = b & ((1 << soft.width(w)) - 1)

    @property
    def n(self):
        if self.k == "i" and self.b >> (self.w - 1):
            return self.b - (1 << self.w)
        return self.b

    def __repr__(self):
        return "%s%s:%x" % (self.k, self.w, self.b)


class Lit(V):
    """An untyped number: takes the other side's type."""


KEYWORDS = {"then", "else", "elsif", "endif", "do", "endfor", "return", "break"}


class Parser:
    def __init__(self, text):
        self.t, self.i = tokens(text), 0

    def peek(self, k=0):
        return self.t[min(self.i + k, len(self.t) - 1)][1]

    def kind(self):
        return self.t[self.i][0]

    def next(self):
        self.i += 1
        return self.t[self.i - 1]

    def want(self, s):
        if self.peek() != s:
            raise SyntaxError("wanted %r, have %r ... %r" % (s, self.peek(), [x[1] for x in self.t[self.i - 5:self.i + 5]]))
        self.i += 1

    def block(self, ends):
        out = []
        while self.peek() not in ends and self.kind() != "end":
            if self.peek() == ";":
                self.i += 1
                continue
            out.append(self.statement())
        return out

    def statement(self):
        p = self.peek()
        if p == "if":
            self.i += 1
            arms = []
            c = self.expr()
            self.want("then")
            arms.append((c, self.block(("elsif", "else", "endif"))))
            while self.peek() == "elsif":
                self.i += 1
                c = self.expr()
                self.want("then")
                arms.append((c, self.block(("elsif", "else", "endif"))))
            other = []
            if self.peek() == "else":
                self.i += 1
                other = self.block(("endif",))
            self.want("endif")
            return ("if", arms, other)
        if p == "for":
            self.i += 1
            v = self.next()[1]
            self.want("in")
            a = self.expr()
            self.want(":")
            b = self.expr()
            self.want("do")
            body = self.block(("endfor",))
            self.want("endfor")
            return ("for", v, a, b, body)
        if p == "declare":
            self.i += 1
            name = self.next()[1]
            self.want(":")
            ty = self.next()[1]
            size = None
            if self.peek() == "[":
                self.i += 1
                size = self.expr()
                self.want("]")
            return ("declare", name, ty, size)
        if p == "return":
            self.i += 1
            return ("return", self.expr())
        if p == "break":
            self.i += 1
            return ("break",)
        if self.kind() == "id" and self.peek(1) == "=" and self.peek(2) == "lambda":
            name = self.next()[1]
            self.i += 2
            self.want("(")
            args = []
            while self.peek() != ")":
                args.append(self.next()[1])
                if self.peek() == ",":
                    self.i += 1
            self.want(")")
            self.want("(")
            if self.peek() in ("if", "declare"):
                body = self.block((")",))
            else:
                body = [("return", self.expr())]
            while self.peek() == ";":
                self.i += 1
            self.want(")")
            return ("lambda", name, args, body)
        e = self.expr()
        if self.peek() in ("=", "+=", "-="):
            op = self.next()[1]
            return ("set", e, op, self.expr())
        return ("expr", e)

    LEVELS = [("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!=", "<>"), ("<", ">", "<=", ">="),
              ("<<", ">>"), ("+", "-"), ("*", "/", "%"), ("**",)]

    def expr(self):
        c = self.binary(0)
        if self.peek() == "?":
            self.i += 1
            a = self.expr()
            self.want(":")
            b = self.expr()
            return ("?", c, a, b)
        return c

    def binary(self, lv):
        if lv == len(self.LEVELS):
            return self.unary()
        a = self.binary(lv + 1)
        while self.peek() in self.LEVELS[lv] and self.kind() == "op":
            op = self.next()[1]
            a = ("bin", op, a, self.binary(lv + 1))
        return a

    def unary(self):
        if self.peek() in ("-", "!", "~", "+"):
            op = self.next()[1]
            return ("un", op, self.unary())
        return self.postfix(self.primary())

    def primary(self):
        k, s = self.next()
        if k == "cast":
            self.want("(")
            e = self.expr()
            self.want(")")
            return ("cast", s, e)
        if k in ("fnum", "tnum", "hex", "num"):
            return (k, s)
        if s == "(":
            e = self.expr()
            self.want(")")
            return e
        if s == "{":
            items = []
            while self.peek() != "}":
                items.append(self.expr())
                if self.peek() == ",":
                    self.i += 1
            self.want("}")
            return ("cat", items)
        if k == "id":
            if self.peek() == "(":
                self.i += 1
                args = []
                while self.peek() != ")":
                    args.append(self.expr())
                    if self.peek() == ",":
                        self.i += 1
                self.want(")")
                return ("call", s, args)
            return ("id", s)
        raise SyntaxError("primary %r" % s)

    def postfix(self, e):
        while True:
            if self.peek() == ".":
                self.i += 1
                e = ("ty", e, self.next()[1])
            elif self.peek() == "[":
                self.i += 1
                a = self.expr()
                if self.peek() == ":":
                    self.i += 1
                    b = self.expr()
                    self.want("]")
                    e = ("slice", e, a, b)
                elif self.peek() == "+:":
                    self.i += 1
                    b = self.expr()
                    self.want("]")
                    e = ("part", e, a, b)
                else:
                    self.want("]")
                    e = ("idx", e, a)
            else:
                return e


def ty(name):
    if name == "bf16":
        return "f", "bf"
    return name[0], int(name[1:])


class Break(Exception):
    pass


class Return(Exception):
    def __init__(self, v):
        self.v = v


class Machine:
    """vars: name -> V or list. code: what v_*() calls run."""

    def __init__(self, code, modes, cache, flushes=True):
        self.code, self.m, self.cache, self.flushes = code, modes, cache, flushes
        self.vars, self.lam, self.mem = {}, {}, {}
        self.written = False  # D0: what is read of it then is a result

    def rnd(self, w):
        return self.m["rnd32"] if w == 32 else self.m["rnd16"]

    def run(self, text):
        if text not in self.cache:
            self.cache[text] = Parser(text).block(())
        self.block(self.cache[text])

    def block(self, stmts):
        for s in stmts:
            self.stmt(s)

    def true(self, e):
        v = self.ev(e)
        return v if isinstance(v, bool) else v.b != 0

    def stmt(self, s):
        if s[0] == "if":
            for c, body in s[1]:
                if self.true(c):
                    return self.block(body)
            self.block(s[2])
        elif s[0] == "for":
            a, b = self.ev(s[2]).n, self.ev(s[3]).n
            try:
                for i in range(a, b + 1):
                    self.vars[s[1]] = V("i", 32, i)
                    self.block(s[4])
            except Break:
                pass
        elif s[0] == "declare":
            if s[1] in ("DATA0", "OFFSET0", "OFFSET1", "OFFSET", "VDST"):
                return
            w, k = s[2].split("'")
            z = V(k.lower() if k else "u", int(w), 0)
            self.vars[s[1]] = [z] * self.ev(s[3]).n if s[3] else z
        elif s[0] == "lambda":
            self.lam[s[1]] = (s[2], s[3])
        elif s[0] == "return":
            raise Return(self.ev(s[1]))
        elif s[0] == "break":
            raise Break
        elif s[0] == "set":
            v = self.ev(s[3])
            if s[2] != "=":
                v = self.arith(s[2][0], self.ev(s[1]), v)
            self.assign(s[1], v)
            base = s[1]
            while base[0] in ("slice", "ty", "idx"):
                base = base[1]
            self.written = self.written or base == ("id", "D0")
        else:
            self.ev(s[1])

    # ---- left sides
    def assign(self, e, v):
        if e == ("id", "ROUND_MODE"):
            self.m = dict(self.m, rnd32=v[1], rnd16=v[2])
            return
        if isinstance(v, bool):
            v = V("u", 1, int(v))
        if e[0] == "id":
            old = self.vars.get(e[1])
            if e[1] in ("D0", "SCC", "PC") and old is not None:
                self.vars[e[1]] = self.conv(v, old.k, old.w)
            else:
                self.vars[e[1]] = v
        elif e[0] == "cat":
            total, at = 0, 0
            for item in reversed(e[1]):
                w = 1 if item[2] in ("u1", "i1") else 64
                self.assign(item, V("u", w, v.b >> at))
                at += w
        elif e[0] == "ty":
            k, w = ty(e[2])
            w_ = soft.width(w)
            v = self.conv(v, k, w)
            if e[1][0] == "idx" and e[1][1] == ("id", "MEM"):
                a = self.ev(e[1][2]).n
                for i in range(w_ // 8):
                    self.mem[a + i] = v.b >> (8 * i) & 255
            elif e[1][0] == "slice" or e[1][0] == "idx":
                self.assign(e[1], V("b", w_, v.b))
            else:
                n = e[1][1]
                old = self.vars.get(n)
                if old is None:
                    self.vars[n] = v
                else:
                    whole = n in ("D0", "D1", "EXEC", "VCC", "VDATA", "RETURN_DATA")
                    keep = old.b & ~((1 << w_) - 1)
                    self.vars[n] = V(old.k if whole else k, max(soft.width(old.w), w_) if whole else w, keep | v.b)
        elif e[0] == "slice":
            hi, lo = self.ev(e[2]).n, self.ev(e[3]).n
            if hi < lo:  # a reversal
                w = lo - hi + 1
                v = V("u", w, int(bin(v.b & ((1 << w) - 1))[2:].zfill(w)[::-1], 2))
                hi, lo = lo, hi
            self.bits(e[1], lo, hi - lo + 1, v)
        elif e[0] == "idx":
            i = self.ev(e[2]).n
            base = e[1]
            if base[0] == "id" and isinstance(self.vars.get(base[1]), list):
                l = list(self.vars[base[1]])
                l[i] = self.conv(v, l[i].k, l[i].w)
                self.vars[base[1]] = l
            else:
                self.bits(base, i, 1, V("u", 1, v.b & 1))
        else:
            raise SyntaxError("assign to %r" % (e,))

    def bits(self, base, lo, w, v):
        if base[0] == "ty":
            base = base[1]
        n = base[1]
        old = self.vars.get(n)
        if old is None:
            old = V("u", 64, 0)
        b = v.b & ((1 << w) - 1)
        width = max(soft.width(old.w), lo + w)
        self.vars[n] = V("u" if old.k == "f" else old.k, width, (old.b & ~(((1 << w) - 1) << lo)) | b << lo)

    # ---- right sides
    def conv(self, v, k, w):
        """Reinterpretation to a lane's slot; numbers only where the kinds differ in kind."""
        if isinstance(v, bool):
            v = V("u", 1, int(v))
        if k == "f" and v.k == "f" and v.w != w:
            return V("f", w, soft.cvt(w, v.w, v.b, self.rnd(w)))
        if k == "f" and isinstance(v, Lit):
            return V("f", w, soft.encode(w, Fraction(v.n), 0))
        if v.k == "i" and k in "iub":
            return V(k, w, v.n)
        return V(k, w, v.b)

    def ev(self, e):
        v = self.value(e)
        if e[0] != "ty" or not isinstance(v, V) or v.k != "f" or not self.flushes:
            return v
        base = e[1]
        while base[0] in ("slice", "ty", "idx"):
            base = base[1]
        if v.w == "bf" or base[0] != "id" or base[1] not in ("S0", "S1", "S2", "D0", "SIMM32") or (base[1] == "D0" and self.written):
            return v
        keep = self.m["den32"] & 1 if v.w == 32 else self.m["den16"] & 1
        return v if keep else V("f", v.w, soft.flush(v.w, v.b))

    def value(self, e):
        t = e[0]
        if t == "num" or t == "hex":
            m = re.match(r"(0x[0-9a-fA-F]+|\d+)(ULL|LL|U|L|F)?$", e[1])
            n, s = int(m.group(1), 0), m.group(2)
            if s == "F":
                return V("f", 32, soft.encode(32, Fraction(n)))
            if s in ("ULL",):
                return V("u", 64, n)
            if s == "LL":
                return V("i", 64, n)
            if s == "U":
                return V("u", 32, n)
            return Lit("i", 32 if n < 1 << 31 else 64, n)
        if t == "fnum":
            s = e[1]
            w = 64
            if s.startswith("16'"):
                s, w = s[3:], 16
            elif s.endswith("F"):
                s, w = s[:-1], 32
            return V("f", w, soft.encode(w, Fraction(s)))
        if t == "tnum":
            w, s = e[1].split("'")
            if s.endswith("U"):
                return V("u", int(w), int(s[:-1]))
            return V("u" if s.startswith("0x") else "i", int(w), int(s, 0))
        if t == "id":
            return self.name(e[1])
        if t == "ty":
            if e[1][0] == "idx" and e[1][1] == ("id", "MEM"):
                k, w = ty(e[2])
                a = self.ev(e[1][2]).n
                return V(k, w, sum(self.mem.get(a + i, 0) << (8 * i) for i in range(w // 8)))
            k, w = ty(e[2])
            v = self.ev(e[1])
            if isinstance(v, bool):
                v = V("u", 1, int(v))
            if v.k == "i" and k in "iu" and w > soft.width(v.w):
                return V(k, w, v.n)
            if k == "f" and v.k == "f" and v.w != w:  # -INF.f32
                return V("f", w, soft.cvt(w, v.w, v.b))
            return V(k, w, v.b)
        if t == "slice":
            hi, lo = self.ev(e[2]).n, self.ev(e[3]).n
            v = self.ev(e[1])
            if hi < lo:
                w = lo - hi + 1
                b = v.b >> hi & ((1 << w) - 1)
                return V("u", w, int(bin(b)[2:].zfill(w)[::-1], 2))
            return V("u", hi - lo + 1, v.b >> lo)
        if t == "part":
            lo, w = self.ev(e[2]).n, self.ev(e[3]).n
            return V("u", w, self.ev(e[1]).b >> lo)
        if t == "idx":
            v = self.ev(e[1])
            i = self.ev(e[2]).n
            if isinstance(v, list):
                return v[i]
            return V("u", 1, v.b >> i)
        if t == "cat":
            b = w = 0
            for item in e[1]:
                v = self.ev(item)
                ww = soft.width(v.w)
                b, w = b << ww | v.b, w + ww
            return V("u", w, b)
        if t == "?":
            return self.ev(e[2]) if self.true(e[1]) else self.ev(e[3])
        if t == "un":
            v = self.ev(e[2])
            if e[1] == "!":
                return not (v if isinstance(v, bool) else v.b)
            if e[1] == "~":
                return V(v.k, v.w, ~v.b)
            if e[1] == "-":
                if v.k == "f":
                    return V("f", v.w, soft.neg(v.w, v.b))
                return type(v)("i" if v.k == "i" else v.k, v.w, -v.n)
            return v
        if t == "cast":
            w, k = e[1].split("'")
            return self.cast(int(w), k or "U", self.ev(e[2]))
        if t == "bin":
            op = e[1]
            if op == "||":
                return self.true(e[2]) or self.true(e[3])
            if op == "&&":
                return self.true(e[2]) and self.true(e[3])
            if op == "==" and e[3][0] == "ty" and e[3][1] == ("id", "DENORM"):
                v = self.ev(e[2])
                return bool(soft.is_denorm(v.w, v.b))
            a, b = self.ev(e[2]), self.ev(e[3])
            if op in ("==", "!=", "<>", "<", ">", "<=", ">="):
                return self.compare(op, a, b)
            return self.arith(op, a, b)
        if t == "call":
            return self.call(e[1], e[2])
        raise SyntaxError(str(e))

    def cast(self, w, k, v):
        if isinstance(v, Pow):
            return v
        if isinstance(v, bool):
            v = V("u", 1, int(v))
        if k == "F":
            if v.k == "f":
                return V("f", w, soft.cvt(w, v.w, v.b, self.rnd(w) if w < soft.width(v.w) else 0))
            if isinstance(v, Lit):
                return V("f", w, v.b)
            if v.k in "ui" and v.w > 64:
                return V("f", w, soft.encode(w, Fraction(v.n)))
            return V("f", w, v.b) if v.w == w else V("f", w, soft.encode(w, Fraction(v.n)))
        if v.k == "f":
            return V(k.lower(), w, v.b)
        return V(k.lower(), w, v.n)

    def name(self, n):
        if n in self.vars:
            return self.vars[n]
        if n == "INF":
            return V("f", 64, soft.inf(64, 0))
        if n == "ROUND_MODE": return ("round", self.m["rnd32"], self.m["rnd16"])
        if n == "ROUND_TOWARD_ZERO": return ("round", 3, 3)
        if n == "PI":
            return V("f", 64, 0x400921fb54442d18)
        if n == "MAX_FLOAT_F32":
            return V("f", 32, 0x7f7fffff)
        if n == "NAN":
            return V("u", 64, 0)  # a NaN: compared as one
        if n in ("UNDERFLOW_F32", "UNDERFLOW_F64"):
            return V("f", int(n[-2:]), 0)
        if n in ("OVERFLOW_F32", "OVERFLOW_F64"):
            return V("f", int(n[-2:]), soft.inf(int(n[-2:]), 0))
        raise NameError(n)

    def same(self, a, b):
        if isinstance(a, bool):
            a = V("u", 1, int(a))
        if isinstance(b, bool):
            b = V("u", 1, int(b))
        return a, b

    def compare(self, op, a, b):
        a, b = self.same(a, b)
        if a.k == "f" or b.k == "f":
            if a.k != "f":
                a = V("f", b.w, soft.encode(b.w, Fraction(a.n)))
            if b.k != "f":
                b = V("f", a.w, soft.encode(a.w, Fraction(b.n)))
            if a.w != b.w:
                a, b = V("f", 64, soft.cvt(64, a.w, a.b)), V("f", 64, soft.cvt(64, b.w, b.b))
            c = soft.less(a.w, a.b, b.b)
            if c is None:
                return op == "!="
        else:
            x, y = a.n, b.n
            c = (x > y) - (x < y)
        return {"==": c == 0, "!=": c != 0, "<>": c != 0, "<": c < 0, ">": c > 0, "<=": c <= 0, ">=": c >= 0}[op]

    def arith(self, op, a, b):
        a, b = self.same(a, b)
        if op == "**":
            n = b.n
            return Pow(a.w, n)
        if isinstance(b, Pow):
            return V("f", a.w, scale(a.w, a.b, b.e, self.rnd(a.w)))
        if isinstance(a, Pow):
            return V("f", b.w, scale(b.w, b.b, a.e, self.rnd(b.w)))
        if a.k == "f" or b.k == "f":
            if a.k != "f":
                a = V("f", b.w, soft.encode(b.w, Fraction(a.n)))
            if b.k != "f":
                b = V("f", a.w, soft.encode(a.w, Fraction(b.n)))
            if a.w != b.w:
                a, b = V("f", 64, soft.cvt(64, a.w, a.b)), V("f", 64, soft.cvt(64, b.w, b.b))
            w, r = a.w, self.rnd(a.w)
            f = {"+": lambda: soft.add(w, a.b, b.b, r), "-": lambda: soft.add(w, a.b, soft.neg(w, b.b), r),
                 "*": lambda: soft.mul(w, a.b, b.b, r), "/": lambda: soft.div(w, a.b, b.b, r)}[op]
            return V("f", w, f())
        if op in ("<<", ">>"):
            n = b.n
            if op == "<<":
                w = a.w
                return V(a.k, w, a.n << n)
            return V(a.k, a.w, a.n >> n)
        w = max(a.w, b.w, 32) if not (isinstance(a, Lit) or isinstance(b, Lit)) else (b.w if isinstance(a, Lit) else a.w)
        if isinstance(a, Lit) and isinstance(b, Lit):
            k = "i"
        elif isinstance(a, Lit):
            k = b.k
        elif isinstance(b, Lit):
            k = a.k
        else:
            k = "i" if a.k == "i" and b.k == "i" else "u"
        x, y = a.n, b.n
        r = {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "&": lambda: x & y, "|": lambda: x | y,
             "^": lambda: x ^ y, "%": lambda: x % y, "/": lambda: int(Fraction(x, y))}[op]()
        return V(k, w, r)

    # ---- functions
    def call(self, n, args):
        if n in self.lam:
            names, body = self.lam[n]
            vals = [self.ev(a) for a in args]
            saved = dict(self.vars)
            self.vars.update(zip(names, vals))
            try:
                self.block(body)
                raise SyntaxError("no return in " + n)
            except Return as r:
                return r.v
            finally:
                self.vars = saved
        a = [self.ev(x) for x in args]
        x = a[0] if a else None
        if n.startswith("v_"):
            return self.sub(n, a)
        if n == "abs":
            if x.k == "f":
                return V("f", x.w, x.b & ~(1 << (soft.width(x.w) - 1)))
            return V(x.k, x.w, abs(x.n))
        if n == "sign":
            return V("u", 1, soft.sign(x.w, x.b))
        if n == "exponent":
            e = soft.parts(x.w, x.b)[1]
            if not e and self.m.get("real_exponent") and not soft.is_zero(x.w, x.b):
                e = soft.ilog2(abs(soft.frac(x.w, x.b))) + (1 << (soft.FMT[x.w][0] - 1)) - 1
                return V("i", 32, e)
            if not e and self.m.get("frexp"):
                e = (1 << (soft.FMT[x.w][0] - 1)) - 2
            return V("i", 32, e)
        if n == "mantissa":
            if soft.is_zero(x.w, x.b):
                return x
            f = soft.frac(x.w, x.b)
            p = soft.ilog2(abs(f)) + 1
            f = f / (1 << p) if p >= 0 else f * (1 << -p)
            return V("f", x.w, soft.encode(x.w, f))
        if n == "isNAN":
            return bool(soft.is_nan(x.w, x.b))
        # conversions to 64 bits quieten: look at what was converted
        if n in ("isSignalNAN", "isQuietNAN"):
            src = self.unwiden(args[0])
            v = self.ev(src)
            s = soft.is_snan(v.w, v.b)
            return bool(s if n == "isSignalNAN" else soft.is_nan(v.w, v.b) and not s)
        if n == "cvtToQuietNAN":
            return V("f", x.w, soft.quiet(x.w, x.b))
        if n == "signext":
            return V("i", 64, V("i", x.w, x.b).n)
        if n == "signext_from_bit":
            w = a[1].n
            if w == 0:
                return V(x.k, x.w, 0)
            return V(x.k, x.w, V("i", w, x.b).n if w < x.w else x.n)
        if n in ("trunc", "floor"):
            return V("f", x.w, soft.rint(x.w, x.b, n))
        if n == "fract":
            fl = soft.rint(x.w, x.b, "floor")
            return V("f", x.w, soft.add(x.w, x.b, soft.neg(x.w, fl)))
        if n == "isEven":
            return not soft.is_inf(x.w, x.b) and not soft.is_nan(x.w, x.b) and soft.frac(x.w, x.b) % 2 == 0
        if n == "fma":
            w = x.w
            return V("f", w, soft.fma(w, x.b, a[1].b, a[2].b, self.rnd(w)))
        if n == "ldexp":
            return V("f", x.w, scale(x.w, x.b, a[1].n, self.rnd(x.w)))
        if n == "sqrt":
            return V("f", x.w, soft.sqrt(x.w, x.b))
        m = re.match(r"([uif])(8|16|32|64)_to_([uif])(8|16|32|64)$", n)
        if m:
            return self.convert(x, m.group(1), int(m.group(2)), m.group(3), int(m.group(4)))
        if n == "bf16_to_f32":
            return V("f", 32, x.b << 16)
        if n == "u4_to_u32" or n == "u8_to_u32":
            return V("u", 32, x.b)
        m = re.match(r"f(16|32)_to_([su])norm$", n)
        if m:
            top = 32767 if m.group(2) == "s" else 65535
            if soft.is_nan(x.w, x.b):
                return V("i", 16, 0)
            if soft.is_inf(x.w, x.b):
                v = -1 if soft.sign(x.w, x.b) else 1
                v = Fraction(v)
            else:
                v = soft.frac(x.w, x.b)
            v = max(Fraction(-1 if m.group(2) == "s" else 0), min(Fraction(1), v)) * top
            return V("i", 16, round(v))
        raise NameError(n)

    def unwiden(self, e):
        return e[2] if e[0] == "cast" else e

    def convert(self, x, fk, fw, tk, tw):
        if tk == "f":
            if fk == "f":
                return V("f", tw, soft.cvt(tw, fw, x.b, self.rnd(tw)))
            return V("f", tw, soft.encode(tw, Fraction(V(fk, fw, x.b).n), self.rnd(tw)))
        lo, hi = (0, (1 << tw) - 1) if tk == "u" else (-(1 << (tw - 1)), (1 << (tw - 1)) - 1)
        if fk == "f":
            if soft.is_nan(fw, x.b):
                return V(tk, tw, 0)
            if soft.is_inf(fw, x.b):
                return V(tk, tw, lo if soft.sign(fw, x.b) else hi)
            f = soft.frac(fw, x.b)
            n = int(f)
        else:
            n = V(fk, fw, x.b).n
        return V(tk, tw, max(lo, min(hi, n)))

    def sub(self, n, a):
        m = re.match(r"v_(min|max)_([uif])(16|32|64)$", n)
        if m and m.group(2) != "f":
            f = min if m.group(1) == "min" else max
            k, w = m.group(2), int(m.group(3))
            return V(k, w, f(V(k, w, a[0].b).n, V(k, w, a[1].b).n))
        if n == "v_cvt_i16_f32":
            return self.convert(a[0], "f", 32, "i", 16)
        if n == "v_cvt_u16_f32":
            return self.convert(a[0], "f", 32, "u", 16)
        key = n.upper()
        text = self.code(key).replace("WAVE_MODE.IEEE", "%dU" % self.m["ieee"])
        sub = Machine(self.code, self.m, self.cache, False)  # its sources were flushed here
        sub.vars = {k: v for k, v in self.vars.items() if k in ("laneId", "WAVE_MODE")}
        for i, v in enumerate(a):
            sub.vars["S%d" % i] = V("u", 64, v.b)
        sub.vars["D0"] = V("u", 32, 0)
        sub.run(text)
        k, w = re.match(r".*_([uif])(8|16|32|64)$", n).groups()
        if w == "8":
            return V("u", 32, sub.vars["D0"].b)
        return V(k, int(w), sub.vars["D0"].b)


class Pow:
    def __init__(self, w, e):
        self.w, self.e, self.k = w, e, "p"


def scale(w, b, e, rnd):
    if soft.is_nan(w, b):
        return soft.quiet(w, b)
    if soft.is_inf(w, b) or soft.is_zero(w, b):
        return b
    e = max(-5000, min(5000, e))
    v = soft.frac(w, b)
    v = v * (1 << e) if e >= 0 else v / (1 << -e)
    return soft.encode(w, v, rnd, soft.sign(w, b))
