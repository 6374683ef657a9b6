"""Checks a receipt with an independent DSSE implementation and a checkpoint with a few lines of our own.

usage: verify.py ENVELOPE VKEY CHECKPOINT
"""

import base64
import hashlib
import json
import sys

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

envelope_path, vkey_path, checkpoint_path = sys.argv[1:]
name, key_hash, encoded = open(vkey_path).read().strip().split("+", 2)
material = base64.b64decode(encoded)
assert material[0] == 1, "not an Ed25519 key"
public = Ed25519PublicKey.from_public_bytes(material[1:])
pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

data = json.load(open(envelope_path))
keyid = data["signatures"][0]["keyid"]
envelope = Envelope.from_dict(data)
envelope.verify([SSlibKey(keyid, "ed25519", "ed25519", {"public": material[1:].hex()})], 1)

# A C2SP signed note: text, an empty line, signature lines.
text, _, signatures = open(checkpoint_path).read().rpartition("\n\n")
text += "\n"
dash, signer, blob = signatures.strip().split(" ")
raw = base64.b64decode(blob)
assert dash == "\u2014" and signer == name
expected = hashlib.sha256(name.encode() + b"\n" + material).digest()[:4]
assert raw[:4] == expected == bytes.fromhex(key_hash), "the key hash does not fit"
public.verify(raw[4:], text.encode())
origin, size, root = text.rstrip("\n").split("\n")[:3]
assert len(base64.b64decode(root)) == 32
print(json.dumps({"receipt": json.loads(envelope.payload), "origin": origin, "size": int(size)}))
