import { pathTo } from '../browser/router.ts'
import { isAdmin } from '../browser/session.ts'
import { Icon } from '../parts/icon.tsx'

/** The server says it in the page itself: it stays as it is until the server starts again, and loads the page anew. */
const isWeaker = (): boolean =>
  document.querySelector<HTMLMetaElement>('meta[name="warren-isolation"]')?.content === 'weaker'

/** A warning above every view, for teams and the operator: everybody who runs code here should know its isolation. */
export function WeakerIsolation() {
  if (!isWeaker()) return null
  return (
    <div class="weaker" role="alert">
      <Icon name="alert" />
      <div>
        <b>Sandboxes on this server are plain containers, because gVisor does not work on it.</b>
        <p>
          Containers isolate less: all of them share the kernel of the machine, and a hole in it is a way out.{' '}
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
