/** The examples that AWS publishes with the description of Signature Version 4. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { signRequest } from './aws-signature.ts'

const at = Date.UTC(2015, 7, 30, 12, 36, 0)
const key = {
  accessKeyID: 'AKIDEXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
  region: 'us-east-1',
  service: 'service',
}
const form = { 'content-type': 'application/x-www-form-urlencoded' }

const examples = {
  'get-vanilla': [
    'GET',
    '/',
    {},
    '',
    'service',
    '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31',
  ],
  'get-vanilla-query-order-key-case': [
    'GET',
    '/?Param2=value2&Param1=value1',
    {},
    '',
    'service',
    'b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500',
  ],
  'post-vanilla': [
    'POST',
    '/',
    {},
    '',
    'service',
    '5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b',
  ],
  'post-x-www-form-urlencoded': [
    'POST',
    '/',
    form,
    'Param1=value1',
    'service',
    'ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a',
  ],
} as const

for (const [name, [method, path, headers, body, service, signature]] of Object.entries(examples)) {
  test(`${name} has the signature that AWS documents`, async () => {
    const url = new URL(path, 'https://example.amazonaws.com')
    const signed = await signRequest({ method, url, headers, body }, { ...key, service }, at)
    assert.match(signed.authorization!, new RegExp(`Signature=${signature}$`))
    assert.match(
      signed.authorization!,
      /^AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE\/20150830\/us-east-1\/service\/aws4_request, /,
    )
  })
}

test('the list of IAM users, the worked example of the manual, has its signature', async () => {
  const url = new URL('https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08')
  const headers = { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' }
  const signed = await signRequest({ method: 'GET', url, headers, body: '' }, { ...key, service: 'iam' }, at)
  assert.match(
    signed.authorization!,
    /Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7$/,
  )
  assert.equal(signed['x-amz-date'], '20150830T123600Z')
})
