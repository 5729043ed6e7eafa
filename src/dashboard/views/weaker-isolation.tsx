import { pathTo } from '../browser/router.ts'
import { isAdmin } from '../browser/session.ts'
import { Icon } from '../parts/icon.tsx'

/** The server says it in the page itself: it stays as it is until the server starts again, and loads the page anew. */
const metaOf = (name: string): string | undefined =>
  document.querySelector<HTMLMetaElement>(`meta[name="${name}"]`)?.content

/** A warning above every view, for teams and the operator: everybody who runs code here should know its isolation. */
export function WeakerIsolation() {
  const what = metaOf('warren-isolation')
  if (what === undefined) return null
  return (
    <div class="weaker" role="alert">
      <Icon name="alert" />
      <div>
        <b>{what}</b>
        <p>
          {metaOf('warren-isolation-weakness')}{' '}
          {isAdmin() ? (
            <>
              <a href={pathTo(['machine'])}>Machine</a> shows why, and what to do.
            </>
          ) : (
            <>
              The operator finds out why with <code>warren doctor</code>.
            </>
          )}
        </p>
      </div>
    </div>
  )
}
