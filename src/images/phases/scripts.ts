/**
 * Scripts that run inside the sandbox of a build, in any image with a POSIX shell. Parameters are passed in
 * the environment: no text of a client is ever part of a script.
 */

/** Part of every base's cache key: increase it when `provision` changes. */
export const provisionVersion = 4

/**
 * Parameter: WARREN_PATH. Login shells, which run every command, set their own search path. That one is
 * appended to WARREN_PATH, because root's has folders that a user's does not.
 */
export const keepSearchPath = `set -e
mkdir -p /etc/profile.d
quoted=$(printf %s "$WARREN_PATH" | sed "s/'/'\\\\\\\\''/g")
printf "PATH='%s':\\$PATH\\n" "$quoted" > /etc/profile.d/00-search-path.sh`

/**
 * Adds everything that clients expect to an image: the user `user` with a home and sudo, /bin/bash, and the
 * programs that clients' helpers call. Programs are installed if the image has a package manager and there is
 * a network; without them only the helpers that need them fail. WARREN_PATH is the image's search path, if
 * any.
 */
export const provision = `set -u
missing=
for program in bash curl git jq sudo ss pgrep tar gzip update-ca-certificates; do
  command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
packages() {
  for program in $missing; do
    case "$program" in
      ss) echo "$1" ;;
      pgrep) echo "$2" ;;
      update-ca-certificates) echo ca-certificates ;;
      *) echo "$program" ;;
    esac
  done
}
if [ -n "$missing" ]; then
  echo "Missing in this image:$missing"
  if command -v apt-get >/dev/null 2>&1; then
    export DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends $(packages iproute2 procps); } </dev/null
  elif command -v apk >/dev/null 2>&1; then
    apk add --no-cache $(packages iproute2 procps) </dev/null
  elif command -v dnf >/dev/null 2>&1; then
    dnf install -y -q $(packages iproute procps-ng) </dev/null
  elif command -v pacman >/dev/null 2>&1; then
    pacman -Sy --noconfirm $(packages iproute2 procps-ng) </dev/null
  else
    echo "There is no package manager: what needs these programs will fail."
  fi || echo "They could not be installed: what needs them will fail."
fi
if ! [ -e /bin/bash ]; then
  printf '#!/bin/sh\\nexec /bin/sh "$@"\\n' > /bin/bash && chmod 755 /bin/bash
fi
mkdir -p /etc /home /root /tmp /usr/local /code
grep -q '^root:' /etc/passwd 2>/dev/null || echo 'root:x:0:0::/root:/bin/sh' >> /etc/passwd
grep -q '^root:' /etc/group 2>/dev/null || echo 'root:x:0:' >> /etc/group
if ! grep -q '^user:' /etc/passwd; then
  id=1000
  while grep -q "^[^:]*:[^:]*:$id:" /etc/passwd /etc/group; do id=$((id + 1)); done
  grep -q '^user:' /etc/group || echo "user:x:$id:" >> /etc/group
  group=$(grep '^user:' /etc/group | cut -d: -f3)
  echo "user:x:$id:$group::/home/user:/bin/bash" >> /etc/passwd
  if [ -e /etc/shadow ]; then echo 'user:*:19000:0:99999:7:::' >> /etc/shadow; fi
fi
if ! [ -e /home/user ]; then
  mkdir -p /home/user
  if [ -d /etc/skel ]; then cp -R /etc/skel/. /home/user/ 2>/dev/null; fi
  chown -R "$(grep '^user:' /etc/passwd | cut -d: -f3):$(grep '^user:' /etc/passwd | cut -d: -f4)" /home/user
elif [ -O /home/user ] && ! [ -L /home/user ]; then
  # An image that only mentions the folder, as by WORKDIR, leaves it to root.
  chown "$(grep '^user:' /etc/passwd | cut -d: -f3):$(grep '^user:' /etc/passwd | cut -d: -f4)" /home/user
fi
chmod 755 /home/user
if [ -d /etc/sudoers.d ]; then
  echo 'user ALL=(ALL:ALL) NOPASSWD: ALL' > /etc/sudoers.d/user && chmod 440 /etc/sudoers.d/user
fi
chmod 777 /code 2>/dev/null
chmod -R a+rwX /usr/local 2>/dev/null
chmod 1777 /tmp
if ! grep -q 'warren: what a user' /etc/profile 2>/dev/null; then
  cat >> /etc/profile <<'END'
# warren: what a user writes into either file counts for every command
if [ -f /etc/profile.d/00-search-path.sh ]; then . /etc/profile.d/00-search-path.sh; fi
if [ -f ~/.bashrc ]; then . ~/.bashrc; fi
if [ -f ~/.profile ]; then . ~/.profile; fi
if [ -n "\${PS1-}" ]; then PS1='\\w $ '; fi
END
fi
if [ -n "\${WARREN_PATH-}" ]; then
${keepSearchPath}
fi
exit 0`

/** The exit status of `finish` if it has changed the image's bundle of authorities. */
export const trustStoreChanged = 3

/**
 * Rebuilds the image's bundle of authorities if a step has added one to the folder of the image's tool and
 * has not called the tool.
 */
const updateTrustStore = `lacking() {
  find "$1" -type f -name "$2" 2>/dev/null | while IFS= read -r file; do
    line=$(sed -n '/-BEGIN/{n;p;q;}' "$file" | tr -d '\\r')
    if [ -n "$line" ] && ! grep -qF -e "$line" "$3" 2>/dev/null; then echo "$file"; fi
  done
}
update() {
  command -v "$4" >/dev/null 2>&1 && [ -n "$(lacking "$1" "$2" "$3")" ] || return 0
  "$4" </dev/null >&2 || exit 1
  changed=${trustStoreChanged}
}
update /usr/local/share/ca-certificates '*.crt' /etc/ssl/certs/ca-certificates.crt update-ca-certificates
update /etc/pki/ca-trust/source/anchors '*' /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem update-ca-trust`

/** The exit status of `finish` if it has changed files, but no authorities. */
export const modesChanged = 4

/**
 * Runs after the last step. As in E2B's templates, everybody may change what is in /usr/local, so that a user
 * can update what root has installed there.
 */
export const finish = `changed=0
if [ -n "$(find /usr/local ! -type l ! -perm -0666 2>/dev/null | head -n 1)" ]; then
  chmod -R a+rwX /usr/local 2>/dev/null
  changed=${modesChanged}
fi
${updateTrustStore}
exit $changed`

/** Completes WARREN_OWNER: `user:` means that user with its own group. */
const wholeOwner = `owner=\${WARREN_OWNER%:}
case "$WARREN_OWNER" in
  *[!0-9:]*) ;;
  # chown knows no group of a number that names nobody.
  *:) group=$(grep "^[^:]*:[^:]*:$owner:" /etc/passwd | head -n 1 | cut -d: -f4); WARREN_OWNER=$owner:\${group:-0} ;;
esac`

/**
 * Parameters: WARREN_ARCHIVE, WARREN_SRC, WARREN_DEST, WARREN_OWNER and WARREN_MODE (or empty). Runs as root
 * in the work folder.
 */
export const copy = `set -e
here=$PWD
work=$(mktemp -d /tmp/.warren-copy-XXXXXX)
chmod 755 "$work"
trap 'cd /; rm -rf "$work" "$WARREN_ARCHIVE"' EXIT
case "$(head -c 2 "$WARREN_ARCHIVE" | od -An -tx1 | tr -d ' ')" in
  1f8b) gzip -dc "$WARREN_ARCHIVE" | tar -C "$work" -xof - ;;
  *) tar -C "$work" -xof "$WARREN_ARCHIVE" ;;
esac
${wholeOwner}
chown -hR "$WARREN_OWNER" "$work"
if [ -n "$WARREN_MODE" ]; then chmod -R "$WARREN_MODE" "$work"; chmod u+rwx "$work"; fi
case "$WARREN_DEST" in
  /*) dest=$WARREN_DEST ;;
  *) dest=$here/$WARREN_DEST ;;
esac
into=
case "$WARREN_DEST" in */ | . | ..) into=1 ;; esac
case "$WARREN_SRC" in *[*?[]*) into=1 ;; esac
if [ -d "$dest" ]; then into=1; fi
make_folder() {
  if ! [ -d "$1" ]; then
    mkdir -p "$1"
    chown "$WARREN_OWNER" "$1"
  fi
}
# cp gives folders that are there already the owner and mode of those it copies over them.
keep_folders() {
  (cd "$1" && WARREN_DEST=$dest find . -type d -exec sh -c 'for each in "$@"; do
    there=$WARREN_DEST/$each
    if [ -d "$there" ]; then
      chown "$(stat -Lc %u:%g "$there")" "$each"
      chmod "$(stat -Lc %a "$there")" "$each"
    fi
  done' sh {} +)
}
cd "$work"
source=./\${WARREN_SRC#/}
IFS=
if [ -n "\${BASH_VERSION-}" ]; then shopt -s globstar dotglob; fi
set -- $source
for each in "$@"; do
  if ! [ -e "$each" ] && ! [ -L "$each" ]; then
    echo "$WARREN_SRC is not among the files that were uploaded" >&2
    exit 1
  fi
  if [ -d "$each" ] && ! [ -L "$each" ]; then
    if [ -d "$dest" ]; then keep_folders "$each"; else make_folder "$dest"; fi
    cp -a "$each/." "$dest/"
  elif [ -n "$into" ]; then
    make_folder "$dest"
    cp -a "$each" "$dest/"
  else
    make_folder "$(dirname "$dest")"
    cp -a "$each" "$dest"
  fi
done`

/** Parameters: WARREN_PATH and WARREN_OWNER. */
export const makeWorkdir = `set -e
if [ -d "$WARREN_PATH" ]; then exit; fi
if [ -e "$WARREN_PATH" ]; then
  echo 'there is something that is not a directory' >&2
  exit 1
fi
mkdir -p "$WARREN_PATH"
${wholeOwner}
chown "$WARREN_OWNER" "$WARREN_PATH"`

/**
 * Parameters: WARREN_USER and WARREN_GROUP (or empty). Creates the user and group if they are missing;
 * numbers need not exist.
 */
export const makeUser = `set -e
case "$WARREN_USER" in
  *[!0-9]*)
    if ! id -u "$WARREN_USER" >/dev/null 2>&1; then
      if command -v useradd >/dev/null 2>&1; then useradd -m -s /bin/bash "$WARREN_USER"; else adduser -D "$WARREN_USER"; fi
    fi ;;
esac
case "$WARREN_GROUP" in
  *[!0-9]*)
    if ! grep -q "^$WARREN_GROUP:" /etc/group; then
      if command -v groupadd >/dev/null 2>&1; then groupadd "$WARREN_GROUP"; else addgroup "$WARREN_GROUP"; fi
    fi ;;
esac`

/** Entries end with a NUL; the first one holds the output of the login shell, if any. */
export const readEnvironment = `printf '\\0'; cat /proc/self/environ`
