"""Create a certificate for the sites on 127.0.0.1 that use TLS.

The package cryptography is a dependency of Scrapy.
"""

from __future__ import annotations

import datetime
import functools
import ipaddress
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@functools.cache
def self_signed() -> bytes:
    """Return a private key and a self-signed certificate for 127.0.0.1, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "127.0.0.1")])
    today, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    serial = x509.random_serial_number()
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), serial, today - day, today + day
    ).add_extension(
        x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
        critical=False,
    )
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    pkcs8, unprotected = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, pkcs8, unprotected) + certificate


def tls_context() -> ssl.SSLContext:
    """Return the TLS context of a server. Scrapy accepts its certificate by default."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:  # ssl reads keys only from files
        file = Path(folder) / "site.pem"
        file.write_bytes(self_signed())
        context.load_cert_chain(file)
    return context
