/**
 * What the base template holds. Every word here counts: roots are cached under the hash of the recipe, so a
 * change makes a new root at the next start.
 */
import { createHash } from 'node:crypto'

export type NodePackage = {
  name: string
  version: string
  integrity: string
  programs: Record<string, string>
}

export type BaseRecipe = {
  /** The Debian release. */
  release: string
  /** The version of the Node that is copied in. */
  nodeVersion: string
  architecture: string
}

/** For each package the need it serves is plain from its name, or said. */
export const basePackages: readonly string[] = [
  'bash',
  'build-essential',
  'ca-certificates',
  'curl',
  'file',
  'gh',
  'git',
  'iproute2',
  'iputils-ping',
  'jq',
  'less',
  'nano',
  'ncurses-bin',
  'ncurses-term',
  'netcat-openbsd',
  'openssh-client',
  'pkg-config',
  'procps',
  'psmisc',
  'python-is-python3',
  'python3',
  'python3-dev',
  'python3-pip',
  'python3-venv',
  'rsync',
  'socat',
  'sudo',
  'tzdata',
  'unzip',
  'wget',
  'xz-utils',
  'zip',
]

/** Debian's own npm brings some 400 packages and a Node past its end of life; these come from npm instead. */
export const nodePackages: readonly NodePackage[] = [
  {
    name: 'npm',
    version: '11.21.1',
    integrity:
      'sha512-YTzL6QBEJXyHcTu0JiUc7RKMp+mzlJtl7rGLmERaXUQeFHIMc9atdr6G9M9C8vDWbv40epoTQAzNL2/PtZVDhQ==',
    programs: { npm: 'bin/npm-cli.js', npx: 'bin/npx-cli.js' },
  },
  {
    name: 'yarn',
    version: '1.22.22',
    integrity:
      'sha512-prL3kGtyG7o9Z9Sv8IPfBNrWTDmXB4Qbes8A9rEzt6wkJV8mUvoirjU0Mp3GGAU06Y0XQyA3/2/RQFVuK7MTfg==',
    programs: { yarn: 'bin/yarn.js', yarnpkg: 'bin/yarn.js' },
  },
]

export type RootFile = { path: string; text: string; mode?: number }

/** Put in before the packages: what dpkg must leave out, and what must not start in a folder. */
export const filesBefore: readonly RootFile[] = [
  {
    path: '/etc/dpkg/dpkg.cfg.d/warren',
    text: [
      'path-exclude=/usr/share/doc/*',
      'path-include=/usr/share/doc/*/copyright',
      'path-exclude=/usr/share/man/*',
      'path-exclude=/usr/share/info/*',
      'path-exclude=/usr/share/locale/*',
      'path-include=/usr/share/locale/locale.alias',
      '',
    ].join('\n'),
  },
  { path: '/usr/sbin/policy-rc.d', text: '#!/bin/sh\nexit 101\n', mode: 0o755 },
]

/** Commands run as `bash -l -c …`: what a user writes into either file must count there too. */
const profileEnd = `
export LANG="\${LANG:-C.UTF-8}"
if [ -f ~/.bashrc ]; then . ~/.bashrc; fi
if [ -f ~/.profile ]; then . ~/.profile; fi
if [ -n "\${PS1-}" ]; then PS1='\\w $ '; fi
`

const bashrc = `# Read by every bash that a person or a command starts, interactive or not.
if [ -n "\${PS1-}" ]; then
  PS1='\\w $ '
  HISTCONTROL=ignoreboth
  alias ls='ls --color=auto' grep='grep --color=auto' ll='ls -l'
fi
`

const profile = `# Read by every login shell, perhaps twice.
case ":$PATH:" in
  *":$HOME/.local/bin:"*) ;;
  *) PATH="$HOME/.local/bin:$PATH" ;;
esac
`

export const filesAfter: readonly RootFile[] = [
  { path: '/etc/skel/.bashrc', text: bashrc },
  { path: '/etc/skel/.profile', text: profile },
  { path: '/root/.bashrc', text: bashrc },
  { path: '/root/.profile', text: profile },
  { path: '/etc/sudoers.d/user', text: 'user ALL=(ALL:ALL) NOPASSWD: ALL\n', mode: 0o440 },
  // The whole sandbox is the environment: pip may write into it without being asked twice.
  { path: '/etc/pip.conf', text: '[global]\nbreak-system-packages = true\nroot-user-action = ignore\n' },
  { path: '/etc/default/locale', text: 'LANG=C.UTF-8\n' },
  { path: '/etc/hosts', text: '127.0.0.1 localhost\n::1 localhost ip6-localhost\n' },
]

/**
 * Run in the root when packages and files are there. Every command goes through a login shell, so what that
 * costs counts: bash tells the user id without another program, and a locale in one archive is one file to
 * open instead of two dozen. `user` is in no group but its own, because the agent needs a second program to set
 * more than one.
 */
export const finishScript = `
sed -i 's/$(id -u)/\${EUID:-$(id -u)}/' /etc/profile
localedef --add-to-archive /usr/lib/locale/C.utf8
cat >> /etc/profile <<'END'${profileEnd}END
groupadd --gid 1000 user
useradd --uid 1000 --gid user --create-home --shell /bin/bash user
chmod 755 /home/user
mkdir -p /code
chown user:user /code
chmod 777 /code
chmod -R a+rwX /usr/local
apt-get clean
rm -rf /usr/sbin/policy-rc.d /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/debconf/*-old
rm -rf /var/log/* /tmp/* /var/tmp/* /debootstrap /etc/hostname /var/lib/dbus/machine-id
rm -rf /usr/share/doc/*/changelog* /usr/share/man/?? /usr/share/man/??_* /dev/*
: > /etc/machine-id
: > /etc/resolv.conf
`

/** Names the root that a recipe makes. */
export function recipeHash(recipe: BaseRecipe): string {
  const all = { recipe, basePackages, nodePackages, filesBefore, filesAfter, finishScript }
  return createHash('sha256').update(JSON.stringify(all)).digest('hex').slice(0, 12)
}

/** The apt sources inside the root. */
export function aptSources(release: string, mirrors: { main: string; security: string }): string {
  const stanza = (uri: string, suites: string) =>
    `Types: deb\nURIs: ${uri}\nSuites: ${suites}\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n`
  return `${stanza(mirrors.main, `${release} ${release}-updates`)}\n${stanza(mirrors.security, `${release}-security`)}`
}
