import { useState } from 'preact/hooks'
import { parseLines } from '../../browser/pairs.ts'
import { ask } from '../../browser/rest.ts'
import { Button } from '../../parts/button.tsx'
import { CodeBlock } from '../../parts/copy.tsx'
import { Check, Field } from '../../parts/fields.tsx'
import { Card, Facts } from '../../parts/layout.tsx'
import { showDone } from '../../parts/toasts.tsx'
import { Ports } from './ports.tsx'
import type { SandboxTabProps } from './tab-props.ts'

/** The egress policy, changed in place. A change replaces all of it, so what is not edited here is sent back as it was. */
export function NetworkTab({ detail, sandbox, reload }: SandboxTabProps) {
  const network = detail.network ?? {}
  const [hasInternet, setInternet] = useState(detail.allowInternetAccess !== false)
  const [allowed, setAllowed] = useState((network.allowOut ?? []).join('\n'))
  const [denied, setDenied] = useState((network.denyOut ?? []).join('\n'))
  const rules = network.rules && Object.keys(network.rules).length > 0 ? network.rules : undefined
  const save = async () => {
    const { rules, dnsServers } = network
    const body = {
      ...(rules && { rules }),
      ...(dnsServers && { dnsServers }),
      allowOut: parseLines(allowed),
      denyOut: parseLines(denied),
      allow_internet_access: hasInternet,
    }
    await ask(`/sandboxes/${sandbox.sandboxID}/network`, { method: 'PUT', body, team: sandbox.team })
    showDone('The egress policy is changed.')
    await reload()
  }
  return (
    <div class="columns">
      <div class="stack">
        <Card title="Egress policy">
          <Check
            label="Internet access"
            checked={hasInternet}
            onChange={setInternet}
            hint="Private networks, other sandboxes and this machine cannot be reached either way."
          />
          <Field
            label="Always allowed"
            value={allowed}
            onInput={setAllowed}
            lines={4}
            mono
            placeholder={'api.example.com\n*.example.org\n203.0.113.0/24'}
            hint="One per line: an address, a range, a name or *.name. Allowed entries win over denied ones."
          />
          <Field
            label="Denied"
            value={denied}
            onInput={setDenied}
            lines={4}
            mono
            placeholder="0.0.0.0/0"
            hint="One per line: an address or a range."
          />
          {network.egressProxy && (
            <p class="notice">
              Its traffic goes through the proxy {network.egressProxy.address}. Nobody can read its password
              back, so saving here removes the proxy.
            </p>
          )}
          <div class="actions">
            <Button kind="primary" onPress={save}>
              Save
            </Button>
          </div>
        </Card>
        {rules && (
          <Card title="Header rules">
            <p class="soft">Requests that leave get these headers. They are kept as they are.</p>
            <CodeBlock code={JSON.stringify(rules, null, 2)} label="Header rules" />
          </Card>
        )}
      </div>
      <div class="stack">
        <Ports detail={detail} />
        <Card title="Ingress">
          <Facts
            facts={[
              [
                'Ports',
                network.allowPublicTraffic === false
                  ? 'only with the traffic access token'
                  : 'open to anyone who has the address',
              ],
              ['Host header', network.maskRequestHost ?? 'passed on as clients send it'],
            ]}
          />
        </Card>
      </div>
    </div>
  )
}
