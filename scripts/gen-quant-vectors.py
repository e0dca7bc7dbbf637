#!/usr/bin/env python3
"""Writes tests/data/quant/<type>.bin and .f32: a few blocks and what they mean.

    python3 scripts/gen-quant-vectors.py GGUF_GEN_DIR tests/data/quant
GGUF_GEN_DIR holds ggq.py, an independent implementation of GGML's block formats in numpy. Half of
the blocks quantise smooth values, half are random bytes (with finite scales), so that every bit of
a block is exercised.
"""
import pathlib
import sys

import numpy as np

sys.path.insert(0, sys.argv[1])
import ggq  # noqa: E402

out = pathlib.Path(sys.argv[2])
out.mkdir(parents=True, exist_ok=True)
rng = np.random.default_rng(11)
# byte offsets of the f16 scales in a block
SCALES = {"Q8_0": [0], "Q4_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
N = 1024
for t, (block, size) in ggq.BLK.items():
    if t == "MXFP4":
        continue
    x = rng.standard_normal(N).astype(np.float32)
    raw = np.frombuffer(ggq.quant(x, t), np.uint8)
    if t in SCALES:
        r = rng.integers(0, 256, (N // block, size), dtype=np.uint8)
        for at in SCALES[t]:
            s = (rng.standard_normal(N // block) * 0.1).astype(np.float16)
            r[:, at:at + 2] = s.view(np.uint8).reshape(-1, 2)
        raw = np.concatenate([raw, r.reshape(-1)])
    elif t in ("F16", "BF16"):
        # signs, zeros, subnormals, the largest finite value
        top = 0x7bff if t == "F16" else 0x7f7f
        e = np.array([0, 0x8000, 1, 0x8001, 0x3ff, 0x400, top, top | 0x8000], np.uint16)
        raw = np.concatenate([raw, e.view(np.uint8)])
    raw = raw.tobytes()
    y = ggq.dequant(raw, t, (-1,)).astype("<f4")
    (out / f"{t.lower()}.bin").write_bytes(raw)
    (out / f"{t.lower()}.f32").write_bytes(y.tobytes())
