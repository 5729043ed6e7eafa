"""What may leave a sandbox, with the synchronous and the asynchronous client."""
import asyncio
import sys

from e2b import ALL_TRAFFIC, AsyncSandbox, Sandbox

newest = sys.argv[1] == "newest"
internet, elsewhere, port = sys.argv[2:]
probe = f"for host in {internet} {elsewhere}; do timeout 4 bash -c \"exec 3<>/dev/tcp/$host/{port} && grep -q from <&3\" && echo $host; done; true"


def reached(sandbox: Sandbox) -> list:
    return sandbox.commands.run(probe).stdout.split()


def sync() -> None:
    closed = Sandbox.create("base", timeout=3600, allow_internet_access=False)
    assert reached(closed) == []
    closed.kill()
    some = Sandbox.create("base", timeout=3600, network={"allow_out": [internet], "deny_out": [ALL_TRAFFIC]})
    assert reached(some) == [internet]
    if hasattr(some, "update_network"):
        some.update_network({"deny_out": [internet]})
        assert reached(some) == [elsewhere]
        some.update_network({"allow_internet_access": False})
        assert reached(some) == []
        some.update_network({})
        assert reached(some) == [internet, elsewhere]
    else:
        assert not newest
    some.kill()
    try:
        Sandbox.create("base", timeout=3600, network={"deny_out": ["example.test"]})
        raise AssertionError("a denied name was taken")
    except Exception as error:
        assert "invalid denied CIDR example.test" in str(error), error


async def later() -> None:
    some = await AsyncSandbox.create("base", timeout=3600, network={"deny_out": [f"{internet}/32"]})
    assert (await some.commands.run(probe)).stdout.split() == [elsewhere]
    if hasattr(some, "update_network"):
        await some.update_network({"deny_out": [elsewhere]})
        assert (await some.commands.run(probe)).stdout.split() == [internet]
    await some.kill()


sync()
asyncio.run(later())
