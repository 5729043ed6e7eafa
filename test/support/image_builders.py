"""Asks for templates of images of every kind and of every tool, as image-builders.ts does with the JavaScript clients."""
import asyncio
import os

from e2b import AsyncTemplate, Template

context = os.environ["CONTEXT"]
musl_image = os.environ["MUSL_IMAGE"]
login = {"username": os.environ["REGISTRY_USER"], "password": os.environ["REGISTRY_PASSWORD"]}
# Where a caller names no sizes, the older releases send what they take for usual.
sizes = {"cpu_count": 2, "memory_mb": 1024}


def image_builders() -> list:
    def of():
        return AsyncTemplate(file_context_path=context)

    builders = {
        ("debian", "debian"): of().from_debian_image(),
        ("ubuntu", "ubuntu"): of().from_ubuntu_image(),
        ("fedora", "fedora"): of().from_fedora_image(),
        ("alpine", "alpine"): of().from_alpine_image(),
        ("arch", "arch"): of().from_arch_image(),
        ("python", "python"): of().from_python_image(),
        ("node", "node"): of().from_node_image(),
        ("bun", "bun"): of().from_bun_image(),
        ("musl", "musl"): of().from_image(musl_image, **login),
        ("google", "musl"): of().from_gcp_registry(musl_image, "account.json"),
        ("mirrored", "musl"): of().from_image("mirrored.example/musl:1"),
        ("multi", "multi"): of().from_image("team/multi:zstd"),
        ("pinned", "multi"): of().from_image(f"team/multi@{os.environ['PINNED']}"),
        ("docker", "python"): of().from_dockerfile("FROM python:3\nRUN true"),
    }
    return [(kind, builder.run_cmd(f'test "$IMAGE" = {image}')) for (kind, image), builder in builders.items()]


def refused_builders() -> list:
    return [
        ("password", Template().skip_cache().from_image(musl_image, login["username"], "not-it")),
        ("region", Template().from_aws_registry("1.dkr.ecr.aws.invalid/x", "AKID", "secret", "nowhere")),
    ]


def tools_builder():
    return (
        Template(file_context_path=context)
        .from_base_image()
        .copy("srv", "/srv", user="root")
        .run_cmd("bash /srv/make.sh", user="root")
        .set_envs({"PIP_NO_INDEX": "1", "NPM_CONFIG_OFFLINE": "true", "NPM_CONFIG_UPDATE_NOTIFIER": "false"})
        .git_clone("/srv/repo", "clone")
        .git_clone("file:///srv/repo", "/home/user/shallow", branch="other", depth=1, user="root")
        .apt_install(["local-deb"], no_install_recommends=True, fix_missing=True)
        .pip_install("/srv/local_py-1-py3-none-any.whl")
        .pip_install(["/srv/local_own-1-py3-none-any.whl"], g=False)
        .npm_install("/srv/js", g=True)
        .npm_install(["/srv/js"], dev=True)
        .bun_install()
        .bun_install("left", dev=True)
        .bun_install(["one", "two"], g=True)
    )


def servers_builder():
    return (
        Template()
        .from_template("mcp-gateway")
        .add_mcp_server(["exa", "time"])
        .run_cmd('test "$(tail -n 1 /srv/said)" = "root: mcp-gateway pull exa time"')
    )


def container_builder():
    return (
        Template()
        .from_template("devcontainer")
        .beta_dev_container_prebuild("/srv/repo")
        .beta_set_dev_container_start("/srv/repo")
    )


def tool_builders() -> list:
    return [
        ("mcp-gateway", tools_builder()),
        ("devcontainer", tools_builder()),
        ("servers", servers_builder()),
        ("container", container_builder()),
    ]


async def send() -> None:
    for name, builder in image_builders():
        await AsyncTemplate.build(builder, name, **sizes)
    for name, builder in [*tool_builders(), *refused_builders()]:
        Template.build(builder, name, **sizes)


asyncio.run(send())
