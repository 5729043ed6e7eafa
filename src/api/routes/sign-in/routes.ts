/**
 * How `e2b auth` of the command line signs in: it opens our page in a browser, a person pastes a key there,
 * and the page sends an access token to the address on which the command line listens. The other routes are
 * those that OAuth clients call, and the links of `warren quickstart`.
 */
import { DashboardLinks } from '../../../core/sign-in/dashboard-links.ts'
import type { Api, RouteContext } from '../../context.ts'
import { createLinkRoute } from './create-link.ts'
import { FormSeal } from './form-seal.ts'
import { redeemLinkRoute } from './redeem-link.ts'
import { refreshTokenRoute } from './refresh-token.ts'
import { revokeTokenRoute } from './revoke-token.ts'
import { showSignInRoute } from './show-sign-in.ts'
import { signInRoute } from './sign-in.ts'

export async function signInRoutes(app: Api, context: RouteContext): Promise<void> {
  await app.register(async (forms: Api) => {
    forms.addContentTypeParser(
      'application/x-www-form-urlencoded',
      { parseAs: 'string', bodyLimit: 16 * 1024 },
      (_request, body, done) => done(null, Object.fromEntries(new URLSearchParams(String(body)))),
    )
    const seal = new FormSeal(context.uploads.secret)
    showSignInRoute(forms, context, seal)
    signInRoute(forms, context, seal)
    refreshTokenRoute(forms, context)
    revokeTokenRoute(forms, context)
  })
  const links = new DashboardLinks(context.clock)
  createLinkRoute(app, context, links)
  redeemLinkRoute(app, context, links)
}
