import assert from 'node:assert/strict'
import { closeSync, openSync } from 'node:fs'
import { constants } from 'node:os'
import { test } from 'node:test'
import { openCLibrary } from './c-library.ts'
import { requireAddonFile } from './native.ts'

const libc = openCLibrary(requireAddonFile('This cannot be tested'))

test('a function of the C library gets integers, buffers, texts and lists of texts, in order', () => {
  const into = Buffer.alloc(64)
  const print = libc.func(
    'int snprintf(void *into, size_t bytes, const char *format, long a, void *b, int c)',
  )
  assert.equal(print(into, into.length, '%ld %s é %d', -(2 ** 40), Buffer.from('two\0'), -3), 24)
  assert.equal(into.toString('utf8', 0, 24), '-1099511627776 two é -3')
  const words = Buffer.alloc(16)
  const given = ['one', 'é', '', 'x'.repeat(10_000)]
  const parse = libc.func('int getsubopt(void *option, const char **tokens, void *value)')
  const text = Buffer.from('é=5\0')
  const pointer = Buffer.alloc(8)
  pointer.writeBigUInt64LE(BigInt(addressOf(text)))
  assert.equal(parse(pointer, given, words), 1)
})

/** `memcpy` returns where it copied to. */
const addressOf = (buffer: Buffer) =>
  libc.func('void *memcpy(void *to, const void *from, size_t bytes)')(buffer, buffer, 0)

test('a result has the width of its type, and a failure its error number', () => {
  const file = openSync('/proc/self/exe', 'r')
  const lseek = libc.func('int64_t lseek(int file, int64_t offset, int whence)')
  assert.equal(lseek(file, 2 ** 40, 0), 2 ** 40)
  assert.equal(libc.func('int lseek(int file, int64_t offset, int whence)')(file, 2 ** 32 + 5, 0), 5)
  closeSync(file)
  assert.equal(lseek(file, 0, 0), -1)
  assert.equal(libc.errno(), constants.errno.EBADF)
})

test('a mistake in a call throws before the call is made', () => {
  const getpid = libc.func('int getpid(void)')
  assert.equal(getpid(), process.pid)
  const chdir = libc.func('int chdir(const char *path)')
  assert.throws(() => chdir('/tmp\0/more'), /holds a zero byte/)
  for (const wrong of [undefined, {}, 1n, true, Symbol('x')]) {
    assert.throws(() => getpid(wrong), { name: 'TypeError', message: /takes numbers, buffers and null/ })
  }
  assert.throws(() => getpid(1, 2, 3, 4, 5, 6, 7), { name: 'TypeError', message: /at most six/ })
  assert.throws(() => libc.func('int no_such_function(void)'), /has no function of this name/)
  assert.throws(() => libc.func('double sqrt(double x)'), /This prototype cannot be read/)
  assert.equal(chdir('/'), 0)
})

test('a view shows the memory at an address', () => {
  const bytes = Buffer.from('seen')
  assert.equal(libc.view(addressOf(bytes), 4).toString(), 'seen')
})

test('a missing addon is an error that says so', () => {
  assert.throws(() => openCLibrary('/nowhere.node', 'It is missing.'), {
    code: 'unavailable',
    message: 'It is missing.',
  })
})
