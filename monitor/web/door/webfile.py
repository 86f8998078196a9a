"""The web configuration file in force: read again when it or a certificate changes, kept where it is bad."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from monitor import settings
from monitor.settings import door

if TYPE_CHECKING:
    from monitor.settings.door import Door, ServerTls

    Signature = tuple[tuple[int, int, int], ...]

log = logging.getLogger(__name__)

HANDSHAKE_SECONDS = 5.0
# Names in Go, as the format has them -> names in OpenSSL. Suites of TLS 1.3 are not configurable in either.
_SUITES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CLIENTS = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}


class WebFile:
    """The file at `path`, nothing where it is empty. Raises Invalid or UnreadableFile when made."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._signature: Signature = ()
        self._tls: ssl.SSLContext | None = None
        self._door = door.Door()
        self._refused = ""
        if path:
            self._take(door.read(path))

    @property
    def now(self) -> Door:
        """What the file says; as long as it is wrong, what it said before."""
        if self._path and self._changed():
            self._reread()
        return self._door

    def listening(self) -> ssl.SSLContext | None:
        """Return the context to listen with, None without TLS; each handshake takes the newest files."""
        if self._tls is None:
            return None
        outer = _context(self._file_of_tls(self._door), Path(self._path).parent)

        def newest(connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
            if self.now.tls_server_config is not None and self._tls is not None:
                connection.context = self._tls

        outer.sni_callback = newest
        return outer

    def _file_of_tls(self, found: Door) -> ServerTls:
        assert found.tls_server_config is not None  # noqa: S101 - asked for only where it is there
        return found.tls_server_config

    def _reread(self) -> None:
        try:
            new = door.read(self._path)
            _refuse_restart(self._door, new)
            self._take(new)
        except (settings.Invalid, settings.UnreadableFile) as error:
            if str(error) != self._refused:
                log.error("the web configuration file is not taken: %s", error)  # noqa: TRY400 - expected
            self._refused = str(error)
            self._signature = self._stats()
        else:
            self._refused = ""
            log.info("web configuration file taken", extra={"file": self._path})

    def _take(self, new: Door) -> None:
        tls = None
        if new.tls_server_config is not None:
            tls = _context(new.tls_server_config, Path(self._path).parent)
        self._door, self._tls = new, tls
        self._signature = self._stats()

    def _changed(self) -> bool:
        return self._stats() != self._signature

    def _stats(self) -> Signature:
        """Return what changes when one of the files is written, replaced or taken away."""
        files = [Path(self._path)]
        tls = self._door.tls_server_config
        if tls is not None:
            folder = files[0].parent
            files += [folder / each for each in (tls.cert_file, tls.key_file, tls.client_ca_file) if each]
        return tuple(_stat(file) for file in files)


def _stat(file: Path) -> tuple[int, int, int]:
    try:
        found = file.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _refuse_restart(old: Door, new: Door) -> None:
    """Raise Invalid where TLS begins or ends, or asks for other certificates: the sockets are open."""
    asked = [each.tls_server_config and each.tls_server_config.client_auth_type for each in (old, new)]
    if asked[0] != asked[1]:
        raise settings.Invalid("TLS and its client_auth_type begin and end with a restart only")


def _context(tls: ServerTls, folder: Path) -> ssl.SSLContext:
    """Return a context; raises Invalid where a file cannot be used."""
    unknown = [name for name in tls.cipher_suites if name not in _SUITES]
    if unknown:
        raise settings.Invalid(f"cipher_suites: read {unknown[0]!r}, expected of {', '.join(_SUITES)}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = _VERSIONS[tls.min_version], _VERSIONS[tls.max_version]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if tls.prefer_server_cipher_suites:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    try:
        # Never ask on the terminal for the password of a key: a service has none.
        context.load_cert_chain(folder / tls.cert_file, folder / tls.key_file, password=lambda: b"")
        if tls.client_ca_file:
            context.load_verify_locations(cafile=folder / tls.client_ca_file)
        if tls.cipher_suites:
            context.set_ciphers(":".join(_SUITES[name] for name in tls.cipher_suites))
    except (OSError, ValueError) as error:
        files = ", ".join(each for each in (tls.cert_file, tls.key_file, tls.client_ca_file) if each)
        raise settings.Invalid(f"tls_server_config: {files} cannot be used ({error})") from None
    context.verify_mode = _CLIENTS[tls.client_auth_type]
    return context
