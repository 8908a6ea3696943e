"""How a run is served: address, tokens and limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address

from limits import parse

from tangokg.errors import ConfigError, check_least
from tangokg.serve.tokens import READ as READ
from tangokg.serve.tokens import WRITE as WRITE
from tangokg.serve.tokens import Tokens as Tokens
from tangokg.serve.tokens import read_tokens as read_tokens


@dataclass(frozen=True)
class ServeSettings:
    """The settings of a service; the defaults serve one machine."""

    host: str = "127.0.0.1"
    port: int = 8765
    tokens: Tokens = field(default_factory=Tokens)
    hosts: tuple[str, ...] = ()  # names, beside localhost, by which people may call the service
    proxy: str = ""  # address of a reverse proxy whose X-Forwarded headers are believed
    late: float = 30.0  # steps before the last one from which new facts are still taken
    ahead: float = 3650.0  # steps after the last one up to which new facts are taken
    span: float = 10_000.0  # steps ahead that may be asked about, and steps of a curve
    body: int = 2**20  # bytes of a request
    rate: str = "6000/minute"  # requests of one address
    in_flight: int = 64  # requests answered at once
    wait: float = 10.0  # seconds to wait for a position of the journal, and for the body of a request
    version: str = ""

    def __post_init__(self) -> None:
        check_least("serve", 0, late=self.late, ahead=self.ahead, wait=self.wait)
        check_least("serve", 1, span=self.span, body=self.body, in_flight=self.in_flight)
        try:
            parse(self.rate)
        except ValueError:
            raise ConfigError(f"--rate {self.rate!r}: expected a number per time, such as 600/minute.") from None
        if not self.private and not self.tokens:
            raise ConfigError(
                f"the service can be reached from other machines (--host, --allow-host or --proxy), so a token is "
                f"needed: give --token-file FILE or set {WRITE} or {READ}."
            )

    @property
    def private(self) -> bool:
        """Whether only this machine can reach the service: not through a proxy either."""
        try:
            loopback = ip_address(self.host).is_loopback
        except ValueError:
            loopback = self.host == "localhost"
        return loopback and not self.hosts and not self.proxy
