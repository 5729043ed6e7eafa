import assert from 'node:assert/strict'
import test from 'node:test'
import { aboutProxy, proxyVariables } from './proxy-variables.ts'

test('the proxy is found in either spelling, and programs get the lowercase one', () => {
  assert.deepEqual(proxyVariables({ HTTPS_PROXY: 'http://p:1', http_proxy: 'http://q:2', NO_PROXY: 'a' }), {
    https_proxy: 'http://p:1',
    http_proxy: 'http://q:2',
    no_proxy: 'a',
  })
  assert.deepEqual(proxyVariables({ http_proxy: 'http://a:1', HTTP_PROXY: 'http://b:1', https_proxy: '' }), {
    http_proxy: 'http://a:1',
  })
})

test('a failed download names its proxy, without the password', () => {
  assert.match(
    aboutProxy('https', { https_proxy: 'http://me:secret@p.test:3128' }),
    /proxy http:\/\/p\.test:3128, which HTTPS_PROXY/,
  )
  assert.match(aboutProxy('http', { http_proxy: 'me:secret@p.test:3128' }), /proxy p\.test:3128,/)
  assert.equal(aboutProxy('https', { http_proxy: 'http://p:1' }), '')
})
