import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { explainFailure, OutputTail } from './explain-failure.ts'

const explain = (...lines: string[]) =>
  explainFailure("failed to run command 'x': exit status 1", 'step 2 of 5', lines)

describe('the text of a failed build', () => {
  it('names the step and its last lines, cut, after the words that clients know', () => {
    assert.equal(
      explain('one', 'two', 'three', `four${'4'.repeat(500)}`),
      `failed to run command 'x': exit status 1. This was step 2 of 5; its last output: 'two' | 'three' | 'four${'4'.repeat(196)}'.`,
    )
    assert.equal(explainFailure('It is gone.', 'the base', []), 'It is gone. This was the base.')
  })

  it('names the setting for a certificate that is not trusted, in the words of each program', () => {
    for (const line of [
      'curl: (60) SSL certificate problem: unable to get local issuer certificate',
      "WARNING: Retrying after connection broken by 'SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate in certificate chain (_ssl.c:1006)'))'",
      'npm error code SELF_SIGNED_CERT_IN_CHAIN',
      'npm error code UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
      "fatal: unable to access 'https://x/': server certificate verification failed. CAfile: none CRLfile: none",
      'E: Failed to fetch https://x/  Certificate verification failed: The certificate is NOT trusted.',
      "ERROR: cannot verify x's certificate, issued by 'CN=Company'",
      'go: x: tls: failed to verify certificate: x509: certificate signed by unknown authority',
      'invalid peer certificate: UnknownIssuer',
      'sun.security.validator.ValidatorException: PKIX path building failed',
    ]) {
      assert.match(explain(line), /WARREN_EXTRA_CA=host/, line)
      const buried = explain(line, 'a', 'b', 'c', 'd')
      assert.match(buried, /WARREN_EXTRA_CA=host/)
      assert.ok(buried.includes(line.slice(0, 60)), 'the line that tells the cause is shown')
    }
  })

  it('knows a full disk, used-up memory and a missing network', () => {
    assert.match(explain('cp: write error: No space left on device'), /WARREN_DEFAULT_DISK_MB/)
    assert.match(
      explainFailure("failed to run command 'x': exit status 137", 'step 1 of 1', []),
      /--memory 4096/,
    )
    assert.match(explain('curl: (6) Could not resolve host: x.test'), /WARREN_DNS_SERVERS/)
    assert.match(explain('npm error code EAI_AGAIN'), /WARREN_DNS_SERVERS/)
    assert.match(explain('bash: line 1:   123 Killed                  python3 x.py'), /--memory 4096/)
    for (const other of [
      'make: *** [all] Error 2',
      'Generating a self-signed certificate',
      'Killed 3 monsters',
    ])
      assert.ok(!/WARREN|--memory/.test(explain(other)), `no remedy on a guess: ${other}`)
  })
})

describe('the lines of a step', () => {
  it('are remembered up to a limit, without empty ones', () => {
    const tail = new OutputTail()
    for (let number = 0; number < 1000; number++) tail.add(`${number}`)
    tail.add('  ')
    tail.add('x'.repeat(100_000))
    assert.equal(tail.lines.length, 100)
    assert.deepEqual(tail.lines.slice(-2), ['999', 'x'.repeat(2000)])
    tail.clear()
    assert.deepEqual(tail.lines, [])
  })
})
