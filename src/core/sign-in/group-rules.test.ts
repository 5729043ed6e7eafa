import assert from 'node:assert/strict'
import { it } from 'node:test'
import { grantsOf, parseGroupRules } from './group-rules.ts'

it('the last equals sign of a rule separates, and the highest role of a team counts', () => {
  const rules = parseGroupRules(' CN=devs,OU=x=acme:member ; *=acme:viewer; ops=operator;leads=acme:owner; ')!
  assert.equal(rules.length, 4)
  const of = (...groups: string[]) => {
    const { isOperator, roles } = grantsOf(groups, rules)
    return [isOperator, Object.fromEntries(roles)]
  }
  assert.deepEqual(of(), [false, { acme: 'viewer' }])
  assert.deepEqual(of('CN=devs,OU=x'), [false, { acme: 'member' }])
  assert.deepEqual(of('leads', 'CN=devs,OU=x'), [false, { acme: 'owner' }])
  assert.deepEqual(of('ops', '*', 'Leads'), [true, { acme: 'viewer' }])
})

it('a rule that could mean something else is rejected', () => {
  for (const text of [
    'devs',
    'devs=acme',
    'devs=acme:admin',
    '=acme:owner',
    '*=operator',
    'devs=Acme:owner',
    'a=b:c;',
  ]) {
    assert.equal(parseGroupRules(text), undefined, text)
  }
  assert.deepEqual(parseGroupRules(''), [])
})
