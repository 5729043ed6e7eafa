/**
 * Templates that begin with images of every kind, and that call every tool. Each release of the JavaScript client
 * builds them: the newest against a Warren, and all of them against a recorder of what they send. Those of Python send
 * the same (image_builders.py).
 */
import type { Template as CurrentTemplate, TemplateBuilder } from 'e2b'
import { registryLogin } from './registry.ts'

type NewTemplate = typeof CurrentTemplate
export type ImageNames = { contextFolder: string; muslImage: string; pinned: string }

/** What the image is, its own variable says; a step that is cached passed on the same image before. */
const imageOf: Record<string, string> = {
  google: 'musl',
  mirrored: 'musl',
  pinned: 'multi',
  docker: 'python',
}

/** By the kind of image. */
export function imageBuilders(
  Template: NewTemplate,
  { contextFolder, muslImage, pinned }: ImageNames,
): [kind: string, builder: TemplateBuilder][] {
  const of = () => Template({ fileContextPath: contextFolder })
  const builders: Record<string, TemplateBuilder> = {
    debian: of().fromDebianImage(),
    ubuntu: of().fromUbuntuImage(),
    fedora: of().fromFedoraImage(),
    alpine: of().fromAlpineImage(),
    arch: of().fromArchImage(),
    python: of().fromPythonImage(),
    node: of().fromNodeImage(),
    bun: of().fromBunImage(),
    musl: of().fromImage(muslImage, registryLogin),
    google: of().fromGCPRegistry(muslImage, { serviceAccountJSON: 'account.json' }),
    mirrored: of().fromImage('mirrored.example/musl:1'),
    multi: of().fromImage('team/multi:zstd'),
    pinned: of().fromImage(`team/multi@${pinned}`),
    docker: of().fromDockerfile('FROM python:3\nRUN true'),
  }
  return Object.entries(builders).map(([kind, builder]) => [
    kind,
    builder.runCmd(`test "$IMAGE" = ${imageOf[kind] ?? kind}`),
  ])
}

/** By what is wrong with what they begin with. */
export function refusedBuilders(
  Template: NewTemplate,
  muslImage: string,
): Record<'password' | 'region', TemplateBuilder> {
  const keys = { accessKeyId: 'AKID', secretAccessKey: 'secret', region: 'nowhere' }
  return {
    password: Template()
      .skipCache()
      .fromImage(muslImage, { ...registryLogin, password: 'not-it' }),
    region: Template().fromAWSRegistry('1.dkr.ecr.aws.invalid/x', keys),
  }
}

const noNetwork = { PIP_NO_INDEX: '1', NPM_CONFIG_OFFLINE: 'true', NPM_CONFIG_UPDATE_NOTIFIER: 'false' }

/** By the name of the template, in the order in which they are to be built. */
export function toolBuilders(
  Template: NewTemplate,
  contextFolder: string,
): [name: string, builder: TemplateBuilder][] {
  const tools = () =>
    Template({ fileContextPath: contextFolder })
      .fromBaseImage()
      .copy('srv', '/srv', { user: 'root' })
      .runCmd('bash /srv/make.sh', { user: 'root' })
      .setEnvs(noNetwork)
      .gitClone('/srv/repo', 'clone')
      .gitClone('file:///srv/repo', '/home/user/shallow', { branch: 'other', depth: 1, user: 'root' })
      .aptInstall(['local-deb'], { noInstallRecommends: true, fixMissing: true })
      .pipInstall('/srv/local_py-1-py3-none-any.whl')
      .pipInstall(['/srv/local_own-1-py3-none-any.whl'], { g: false })
      .npmInstall('/srv/js', { g: true })
      .npmInstall(['/srv/js'], { dev: true })
      .bunInstall()
      .bunInstall('left', { dev: true })
      .bunInstall(['one', 'two'], { g: true })
  const servers = Template()
    .fromTemplate('mcp-gateway')
    .addMcpServer(['exa', 'time'])
    .runCmd('test "$(tail -n 1 /srv/said)" = "root: mcp-gateway pull exa time"')
  const container = Template()
    .fromTemplate('devcontainer')
    .betaDevContainerPrebuild('/srv/repo')
    .betaSetDevContainerStart('/srv/repo')
  return [
    ['mcp-gateway', tools()],
    ['devcontainer', tools()],
    ['servers', servers],
    ['container', container as TemplateBuilder],
  ]
}
