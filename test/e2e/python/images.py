"""Images of every kind and the tools of a template, as the Python clients ask for them; silent when all is well."""
import asyncio
import os
import sys

from e2b import AsyncTemplate, BuildException, Sandbox, Template

suffix = "py-" + sys.argv[1].replace(".", "-")
context = os.environ["CONTEXT"]
musl_image = os.environ["MUSL_IMAGE"]
login = {"username": os.environ["REGISTRY_USER"], "password": os.environ["REGISTRY_PASSWORD"]}


def say(template: str, command: str) -> str:
    sandbox = Sandbox.create(template, timeout=120)
    try:
        return sandbox.commands.run(command).stdout
    finally:
        sandbox.kill()


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
        ("multi", "multi"): of().from_image("team/multi:zstd"),
        ("pinned", "multi"): of().from_image(f"team/multi@{os.environ['PINNED']}"),
        ("docker", "python"): of().from_dockerfile("FROM python:3\nRUN true"),
    }
    return [
        (f"{kind}-{suffix}", builder.run_cmd(f'test "$IMAGE" = {image}'))
        for (kind, image), builder in builders.items()
    ]


async def images() -> None:
    await asyncio.gather(*[AsyncTemplate.build(builder, name) for name, builder in image_builders()])


def refusals() -> None:
    for builder, message in (
        (Template().skip_cache().from_image(musl_image, login["username"], "not-it"), "gives no access"),
        (Template().from_aws_registry("1.dkr.ecr.aws.invalid/x", "AKID", "secret", "nowhere"), "AWS region"),
    ):
        try:
            Template.build(builder, f"refused-{suffix}")
            raise AssertionError("it was not refused")
        except BuildException as error:
            assert message in str(error), error


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


def tools() -> None:
    for name in ("mcp-gateway", "devcontainer"):
        Template.build(tools_builder(), name)
    said = say("devcontainer", os.environ["CHECK"])
    assert said.rstrip("\n") == os.environ["SAYS"], said
    Template.build(servers_builder(), f"servers-{suffix}")
    Template.build(container_builder(), f"container-{suffix}")
    said = say(f"container-{suffix}", "tail -n 2 /srv/said; cat /devcontainer.sh")
    lines = [f"root: devcontainer {verb} --workspace-folder /srv/repo" for verb in ("build", "up")]
    assert said.splitlines() == [*lines, "# prepared /srv/repo"], said


async def only_send() -> None:
    sizes = {"cpu_count": 2, "memory_mb": 1024}
    for name, builder in image_builders():
        await AsyncTemplate.build(builder, name, **sizes)
    for builder in (tools_builder(), servers_builder(), container_builder()):
        Template.build(builder, f"tools-{suffix}", **sizes)


if sys.argv[2:] == ["only-send"]:
    asyncio.run(only_send())
else:
    asyncio.run(images())
    tools()
    refusals()
