"""Template builds with the synchronous and the asynchronous client; prints nothing when all is well."""
import asyncio
import os
import sys
import tempfile

from e2b import (
    AsyncSandbox,
    AsyncTemplate,
    BuildException,
    Sandbox,
    Template,
    wait_for_file,
    wait_for_port,
    wait_for_timeout,
)

newest = sys.argv[1] == "newest"
suffix = sys.argv[1]


def context() -> str:
    folder = tempfile.mkdtemp(prefix="warren-context-")
    os.makedirs(os.path.join(folder, "folder/deep"))
    for name, text in {
        "one.txt": "one",
        "folder/test.txt": "in the folder",
        "folder/deep/er.txt": "deep",
        "folder/secret.key": "secret",
        "folder/note.tmp": "scratch",
        ".dockerignore": "**/*.key\n",
    }.items():
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)
    os.symlink("test.txt", os.path.join(folder, "folder/good.link"))
    return folder


def say(template: str, command: str) -> str:
    sandbox = Sandbox.create(template, timeout=3600)
    try:
        return sandbox.commands.run(command).stdout
    finally:
        sandbox.kill()


def methods() -> None:
    name = f"py-methods-{suffix}"
    assert Template.exists(name) is False
    template = (
        Template(file_context_path=context(), file_ignore_patterns=["**/*.tmp"])
        .from_base_image()
        .copy("one.txt", "into/")
        .copy("folder/*", "folder")
        .copy("folder", "/srv/whole", user="root", mode=0o755)
        .copy_items([{"src": "one.txt", "dest": "items/two.txt", "force_upload": True}])
        .run_cmd(["cat folder/test.txt > log", "echo >> log"])
        .run_cmd("whoami >> /home/user/log", user="root")
        .run_cmd("cat >> log <<END\nheredoc of $USER\nEND")
        .make_dir("made", mode=0o700)
        .rename("into/one.txt", "into/renamed.txt")
        .make_symlink("into/renamed.txt", "link")
        .remove("made", recursive=True)
        .set_envs({"FIRST": "one", "SECOND": "$FIRST and two"})
        .set_workdir("/srv/app")
        .set_user("builder")
        .run_cmd('echo "$SECOND" > /tmp/second')
        .set_start_cmd("python3 -m http.server 8000", wait_for_port(8000))
    )
    lines = []
    built = Template.build(
        template,
        f"{name}:v1",
        tags=["stable"],
        cpu_count=1,
        memory_mb=256,
        on_build_logs=lambda entry: lines.append(entry.message),
    )
    assert any("[builder 1/" in line for line in lines), lines
    assert Template.exists(f"{name}:v1") is True
    assert Template.exists(f"{name}:v2") is False
    said = say(f"{name}:stable", "whoami; pwd; cat /tmp/second; cat /home/user/log; cat /home/user/link")
    assert said == "builder\n/srv/app\none and two\nin the folder\nroot\nheredoc of user\none", said
    found = say(f"{name}:v1", "cd /srv; find whole | sort; stat -c '%a %U' whole/test.txt; ls /home/user")
    files = "whole\nwhole/deep\nwhole/deep/er.txt\nwhole/good.link\nwhole/test.txt\n755 root\n"
    assert found == files + "folder\ninto\nitems\nlink\nlog\n", found
    answer = say(f"{name}:v1", "curl -s -o /dev/null -w '%{http_code}' localhost:8000")
    assert answer == "200", answer
    assigned = Template.assign_tags(f"{name}:v1", ["default", "v2"])
    assert assigned.build_id == built.build_id
    Template.remove_tags(name, "stable")
    tags = Template.get_tags(built.template_id)
    assert [one.tag for one in tags] == ["default", "v1", "v2"], tags
    info = Sandbox.create(name, timeout=3600)
    detail = info.get_info()
    assert (detail.cpu_count, detail.memory_mb) == (1, 256), detail
    info.kill()


def failures() -> None:
    for template, message in {
        "echo why >&2; exit 7": "failed to run command 'echo why >&2; exit 7': exit status 7",
    }.items():
        try:
            Template.build(Template().from_base_image().run_cmd("true").run_cmd(template), f"py-failing-{suffix}")
            raise AssertionError("it did not fail")
        except BuildException as error:
            assert message in str(error), error
    try:
        nobody = Template().from_base_image().run_cmd("whoami", user="root123")
        Template.build(nobody, f"py-failing-{suffix}")
        raise AssertionError("it did not fail")
    except BuildException as error:
        wanted = "failed to run command 'whoami': command failed: unauthenticated: invalid username: 'root123'"
        assert wanted in str(error), error


def dockerfile() -> None:
    lines = [
        "FROM e2bdev/base",
        "ARG WHO=world",
        "ENV GREETING=hello-$WHO",
        "WORKDIR /app",
        "COPY folder/test.txt /app/",
    ]
    if newest:
        lines += [
            "COPY --chmod=640 --chown=root one.txt /app/",
            "RUN <<EOF",
            'echo "$GREETING" > greeting',
            "echo second >> greeting",
            "EOF",
            "RUN <<EOF",
            "#!/usr/bin/env python3",
            "open('script', 'w').write('by python')",
            "EOF",
            "COPY <<EOF /app/inline",
            "inline text",
            "EOF",
            'ENTRYPOINT ["python3", "-m"]',
            'CMD ["http.server", "8000"]',
        ]
    else:
        lines += ['RUN echo "$GREETING" > greeting', "CMD python3 -m http.server 8000"]
    template = Template(file_context_path=context()).from_dockerfile("\n".join(lines))
    name = f"py-docker-{suffix}"
    Template.build(template.set_ready_cmd(wait_for_port(8000)), name)
    said = say(name, "whoami; pwd; cat greeting test.txt; curl -s -o /dev/null -w ' %{http_code}' localhost:8000")
    greeting = "hello-world\nsecond\n" if newest else "hello-world\n"
    assert said == f"user\n/app\n{greeting}in the folder 200", said
    if newest:
        assert say(name, "cat script inline; stat -c ' %a %U' one.txt") == "by pythoninline text\n 640 root\n"


async def later() -> None:
    name = f"py-later-{suffix}"
    template = (
        AsyncTemplate(file_context_path=context())
        .from_base_image()
        .copy("folder", "folder")
        .set_start_cmd("touch /tmp/up; sleep 1000", wait_for_file("/tmp/up"))
    )
    begun = await AsyncTemplate.build_in_background(template, name)
    status = await AsyncTemplate.get_build_status(begun)
    assert status.status.value == "building", status
    while status.status.value == "building":
        await asyncio.sleep(0.2)
        status = await AsyncTemplate.get_build_status(begun, logs_offset=0)
    assert status.status.value == "ready", status
    assert await AsyncTemplate.exists(name) is True
    child = AsyncTemplate().from_template(name).run_cmd("cat folder/deep/er.txt > copied")
    two = [AsyncTemplate.build(child, f"{name}-{at}") for at in range(2)]
    await asyncio.gather(*two)
    again = []
    await AsyncTemplate.build(child, f"{name}-0", on_build_logs=lambda entry: again.append(entry.message))
    assert any(line.startswith("CACHED [builder 1/1]") for line in again), again
    forced = AsyncTemplate().from_template(name).set_ready_cmd(wait_for_timeout(1000))
    await AsyncTemplate.build(forced, f"{name}-1", skip_cache=True)
    sandbox = await AsyncSandbox.create(f"{name}-0", timeout=3600)
    assert (await sandbox.commands.run("cat copied")).stdout == "deep"
    await sandbox.kill()
    await AsyncTemplate.assign_tags(name, "kept")
    await AsyncTemplate.remove_tags(name, ["kept"])
    assert [one.tag for one in await AsyncTemplate.get_tags(begun.template_id)] == ["default"]


methods()
failures()
dockerfile()
# What the older asynchronous client sends is the same, which builder-requests.test.ts proves.
if newest:
    asyncio.run(later())
