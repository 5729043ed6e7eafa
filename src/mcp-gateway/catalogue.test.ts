import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recipeFor } from './catalogue.ts'

test('settings of a known server become variables and arguments', () => {
  assert.deepEqual(recipeFor('brave', { apiKey: 'k', other: 1 }), {
    name: 'brave',
    source: { npm: '@brave/brave-search-mcp-server' },
    args: [],
    envs: { BRAVE_API_KEY: 'k' },
  })
  assert.deepEqual(recipeFor('filesystem', { paths: ['/a', '/b'] }).args, ['/a', '/b'])
  assert.deepEqual(recipeFor('git', { paths: ['/a'] }).args, ['--repository', '/a'])
  assert.deepEqual(recipeFor('memory', null).envs, {})
})

test('a repository of GitHub, and any other command, is run as the client says', () => {
  const envs = { KEY: 'x' }
  assert.deepEqual(recipeFor('github/a/b', { runCmd: 'node .', installCmd: 'npm ci', envs }), {
    name: 'github/a/b',
    runCmd: 'node .',
    args: [],
    envs,
    source: { repository: 'https://github.com/a/b', installCmd: 'npm ci' },
  })
  assert.equal(recipeFor('mine', { runCmd: 'serve' }).source, null)
})

test('an unknown server is rejected with the known ones', () => {
  for (const name of ['nothing', 'toString', '__proto__', 'github/a/b'])
    assert.throws(() => recipeFor(name, {}), /There is no MCP server '.*' here\. Give a runCmd .* memory/)
})
