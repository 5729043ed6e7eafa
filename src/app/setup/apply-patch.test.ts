import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { applyPatch, parsePatch } from './apply-patch.ts'
import { findGo } from './go-toolchain.ts'
import { fetchSources, gvisorPatch } from './gvisor-build.ts'

function folderFor(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'warren-patch-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

const twoHunks = `diff --git a/one.txt b/one.txt
index 1111111..2222222 100644
--- a/one.txt
+++ b/one.txt
@@ -1,2 +1,3 @@
 a
+a and a half
 b
@@ -4,2 +5 @@ c
 d
-e
diff --git a/made/two.txt b/made/two.txt
new file mode 100644
index 0000000..3333333
--- /dev/null
+++ b/made/two.txt
@@ -0,0 +1,2 @@
+first
+second
`

test('a patch changes a file in several places and makes a new one', async (t) => {
  const folder = folderFor(t)
  writeFileSync(join(folder, 'one.txt'), 'a\nb\nc\nd\ne\n')
  await applyPatch(twoHunks, folder)
  assert.equal(readFileSync(join(folder, 'one.txt'), 'utf8'), 'a\na and a half\nb\nc\nd\n')
  assert.equal(readFileSync(join(folder, 'made/two.txt'), 'utf8'), 'first\nsecond\n')
})

test('a patch whose context lines do not match is not applied', async (t) => {
  const folder = folderFor(t)
  writeFileSync(join(folder, 'one.txt'), 'new\na\nb\nc\nd\ne\n')
  await assert.rejects(applyPatch(twoHunks, folder), /one\.txt differs at line 4/)
  assert.equal(readFileSync(join(folder, 'one.txt'), 'utf8'), 'new\na\nb\nc\nd\ne\n')
})

test('a patch with an unknown kind of line is not applied', () => {
  assert.throws(() => parsePatch(`${twoHunks}\\ No newline at end of file\n`), /does not know/)
})

test('the patch for gVisor applies to its pinned sources, with the same result as git', async (t) => {
  const go = await findGo()
  if (!go) return t.skip('Go is not here')
  const folder = folderFor(t)
  const sources = await fetchSources(go, join(folder, 'empty'))
  const [ours, gits] = [join(folder, 'ours'), join(folder, 'gits')]
  const patched = parsePatch(gvisorPatch)
  assert.ok(patched.length > 0)
  for (const target of [ours, gits]) {
    mkdirSync(target)
    for (const { path } of patched.filter(({ isNew }) => !isNew)) {
      mkdirSync(dirname(join(target, path)), { recursive: true })
      cpSync(join(sources, path), join(target, path))
    }
    // Those of Go's cache can be read only.
    execFileSync('chmod', ['-R', 'u+w', target])
  }
  await applyPatch(gvisorPatch, ours)
  execFileSync('git', ['init', '--quiet', gits])
  execFileSync('git', ['-C', gits, 'apply', '-'], { input: gvisorPatch })
  for (const { path } of patched)
    assert.equal(readFileSync(join(ours, path), 'utf8'), readFileSync(join(gits, path), 'utf8'), path)
})
