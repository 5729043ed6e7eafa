/** The recipe of the desktop template: what its client starts, and what a person expects on a screen. */
import type { BuiltInRecipe } from '../../core/template/built-in-templates.ts'
import { aptInstall } from './apt-install.ts'

/** The client calls these by name. */
const called = [
  ...['xvfb', 'x11-utils', 'x11-xserver-utils', 'x11vnc', 'xdotool', 'scrot', 'xdg-utils', 'libgtk-3-bin'],
  ...['net-tools', 'procps', 'dbus-x11', 'novnc', 'websockify'],
]
/** The session; the client waits for its window manager and its background. */
const session = [
  ...['xfce4-session', 'xfwm4', 'xfdesktop4', 'xfce4-panel', 'xfce4-settings', 'thunar', 'xfce4-terminal'],
  ...['adwaita-icon-theme', 'fonts-dejavu-core', 'at-spi2-core'],
]
const programs = ['chromium', 'mousepad']
const furtherPrograms = ['firefox-esr', 'libreoffice-writer', 'libreoffice-calc', 'gimp', 'fonts-noto-cjk']

/** The client runs noVNC from this folder. */
const novncFolder = '/opt/noVNC'
/**
 * A browser's own sandbox needs namespaces that are not available here; the Warren sandbox replaces it. The
 * shared memory of a sandbox is small.
 */
const chromiumFlags =
  '--no-sandbox --disable-dev-shm-usage --no-first-run --no-default-browser-check --password-store=basic --test-type'
/** People ask for the browser by the name they know. */
const aliases = { 'google-chrome': 'chromium', 'text-editor': 'org.xfce.mousepad' }

export function desktopRecipe(diskMB: number): BuiltInRecipe {
  return {
    alias: 'desktop',
    name: 'desktop',
    about: 'A screen with a mouse and a keyboard, a browser and an editor.',
    sizes: { cpuCount: 2, memoryMB: 4096, diskMB },
    seconds: 240,
    async request({ full }) {
      const step = { type: 'RUN' as const, filesHash: null, force: false }
      const packages = [...called, ...session, ...programs, ...(full ? furtherPrograms : [])]
      return {
        from: { template: 'base' },
        steps: [
          { ...step, args: [aptInstall(packages), 'root'] },
          { ...step, args: [arrange, 'root'] },
        ],
        // The client starts the screen with the requested size.
        startCmd: null,
        readyCmd: null,
        force: false,
      }
    },
  }
}

const arrange = [
  `ln -sfn /usr/share/novnc ${novncFolder}`,
  `echo 'export CHROMIUM_FLAGS="$CHROMIUM_FLAGS ${chromiumFlags}"' > /etc/chromium.d/sandbox`,
  ...Object.entries(aliases).map(
    ([alias, name]) =>
      `ln -sfn /usr/share/applications/${name}.desktop /usr/share/applications/${alias}.desktop`,
  ),
  'update-alternatives --set x-www-browser /usr/bin/chromium',
].join(' && ')
