// biome-ignore-all lint/suspicious/noTemplateCurlyInString: they are the texts to expand
import assert from 'node:assert/strict'
import test from 'node:test'
import { isAppError } from './app-error.ts'
import { expandVariables, largestExpansion, variablesIn } from './variables.ts'

const values = { NAME: 'warren', EMPTY: '', OTHER: 'two', N: 'n', DOLLAR: '$NAME' }

const expanded: [text: string, wanted: string][] = [
  ['hello $NAME', 'hello warren'],
  ['${NAME}s', 'warrens'],
  ['$MISSING.', '.'],
  ['\\$NAME \\${NAME}', '$NAME ${NAME}'],
  ['100$', '100$'],
  ['$N $NAME ${N}AME', 'n warren nAME'],
  ['$constructor${toString}$__proto__', ''],
  ['$DOLLAR', '$NAME'],
  ['$ ${ ${} $', '$ ${ ${} $'],
  ['${MISSING:-other} ${EMPTY:-other} ${NAME:-other}', 'other other warren'],
  ['${MISSING-other}|${EMPTY-other}', 'other|'],
  ['/x${MISSING:+:$MISSING}|${NAME:+:$NAME}|${EMPTY:+y}|${EMPTY+y}', '/x|:warren||y'],
  ['${MISSING:-$OTHER and ${NAME}}', 'two and warren'],
  ['${MISSING:-\\$OTHER}', '$OTHER'],
  ['${MISSING:-}', ''],
  ['${NAME#w} ${', '${NAME#w} ${'],
]
for (const [text, wanted] of expanded) {
  test(`'${text}' is '${wanted}'`, () => assert.equal(expandVariables(text, values), wanted))
}

test('the names in a text are found at any depth, except escaped ones', () => {
  assert.deepEqual(variablesIn('$A ${B} ${C:-$D${E}} \\$F $'), ['A', 'B', 'C', 'D', 'E'])
})

test('a hostile text takes no longer than a plain one', () => {
  const startedAt = performance.now()
  for (const text of [
    '${A:-'.repeat(20_000),
    `\${A:-${'$'.repeat(200_000)}`,
    `\${A:-${'${B}'.repeat(50_000)}`,
  ]) {
    expandVariables(text, values)
  }
  assert.ok(performance.now() - startedAt < 20_000)
})

test('a text whose variables make it too long is rejected before it is built', () => {
  const half = { HALF: 'x'.repeat(largestExpansion / 2) }
  assert.equal(expandVariables('$HALF$HALF', half).length, largestExpansion)
  for (const text of ['$HALF$HALF.', '${NONE:-$HALF$HALF.}', '$HALF'.repeat(200_000)]) {
    assert.throws(
      () => expandVariables(text, half),
      (error) => isAppError(error, 'invalid_argument') && /longer than 131072/.test(error.message),
    )
  }
  const plain = `${'x'.repeat(2 * largestExpansion)}$NONE`
  assert.equal(expandVariables(plain, {}).length, 2 * largestExpansion)
})
