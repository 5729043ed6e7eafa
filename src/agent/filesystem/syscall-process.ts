/**
 * The few system calls Node does not have, inotify's and those for extended attributes, made by a small
 * process that lives only while it is needed. Perl's own `syscall` is enough and is on every Debian: nothing
 * to compile, nothing to load into the agent. Requests are answered in order, one frame each.
 */
import type { ChildProcess } from 'node:child_process'
import { AppError } from '../../lib/app-error.ts'

/** Each processor numbers the calls its own way: inotify_init1, add, rm, listxattr, get, set, remove. */
const callNumbers: Partial<Record<NodeJS.Architecture, number[]>> = {
  x64: [294, 254, 255, 194, 191, 188, 197],
  arm64: [26, 27, 28, 11, 8, 5, 14],
}

/**
 * A frame is a length and that many bytes: of a request a letter and its arguments, of an answer `r`, of
 * events `e` and what the kernel gave. Events that happened before a request are sent before its answer.
 */
const script = String.raw`
my ($init, $add, $remove, $list, $get, $set, $drop) = map { $_ + 0 } @ARGV;
my $inotify = -1;
my $room = "\0" x 65536;
sub tell_ {
  my $frame = pack 'N/a*', join '', @_;
  while (length $frame) { my $n = syswrite(STDOUT, $frame) or exit; substr $frame, 0, $n, '' }
}
sub bytes {
  my ($n, $b) = (shift, '');
  while (length $b < $n) { sysread(STDIN, $b, $n - length $b, length $b) or exit }
  return $b;
}
sub events {
  while ($inotify >= 0) {
    my $n = sysread(EVENTS, my $b, 65536) or last;
    tell_('e', $b);
  }
}
sub value {
  my ($path, $name) = @_;
  my $n = syscall($get, $path, $name, $room, length $room);
  return $n < 0 ? undef : substr $room, 0, $n;
}
sub names {
  my ($path) = @_;
  my $n = syscall($list, $path, $room, length $room);
  return $n > 0 ? split /\0/, substr $room, 0, $n : ();
}
sub put { my ($path, $name, $value) = @_; return syscall($set, $path, $name, $value, length $value, 0) < 0 ? $! + 0 : 0 }
my %do = (
  watch => sub {
    my ($mask, @paths) = @_;
    $mask += 0;
    if ($inotify < 0) {
      $inotify = syscall($init, 0x80800);
      return pack 'l>*', map { -$! } @paths if $inotify < 0;
      open EVENTS, '<&=', $inotify or exit;
    }
    return pack 'l>*', map { my $wd = syscall($add, $inotify, $_, $mask); $wd < 0 ? -$! : $wd } @paths;
  },
  unwatch => sub { syscall($remove, $inotify, $_ + 0) for @_; return '' },
  read => sub {
    my $prefix = shift;
    return join '', map {
      my $path = $_;
      my @found = map { my $v = value($path, $_); defined $v ? ($_, $v) : () } grep { index($_, $prefix) == 0 } names($path);
      pack 'N/a*', pack '(N/a*)*', @found;
    } @_;
  },
  replace => sub {
    my ($prefix, $path, $from, %given) = @_;
    for (grep { index($_, $prefix) == 0 } names($path)) { syscall($drop, $path, $_) }
    if ($from ne '') {
      for (grep { index($_, $prefix) != 0 && !/^(security|trusted)\./ } names($from)) {
        my $v = value($from, $_);
        put($path, $_, $v) if defined $v;
      }
    }
    my $failed = 0;
    for (sort keys %given) { $failed ||= put($path, $_, $given{$_}) }
    return pack 'l>', $failed;
  },
);
for (;;) {
  my $ready = '';
  vec($ready, 0, 1) = 1;
  vec($ready, $inotify, 1) = 1 if $inotify >= 0;
  select($ready, undef, undef, undef);
  events();
  next unless vec($ready, 0, 1);
  my ($verb, @arguments) = unpack '(N/a*)*', bytes(unpack 'N', bytes(4));
  tell_('r', $do{$verb}->(@arguments));
}
`

const idleMs = 5000

type Verb = 'watch' | 'unwatch' | 'read' | 'replace'
type Waiting = { take(answer: Buffer): void; reject(error: unknown): void }

export class SyscallProcess {
  #perl: readonly string[]
  #child: ChildProcess | undefined
  #waiting: Waiting[] = []
  #holders = 0
  #timer: NodeJS.Timeout | undefined
  #onEvents: (raw: Buffer) => void = () => {}
  #onEnd: () => void = () => {}

  constructor(perl: readonly string[]) {
    this.#perl = perl
  }

  /** Who watches hears of events, and of an end that came without `release`. */
  listen(onEvents: (raw: Buffer) => void, onEnd: () => void): void {
    this.#onEvents = onEvents
    this.#onEnd = onEnd
  }

  /** While it is held the process stays, for its watches live in it. */
  hold(): void {
    this.#holders++
  }

  release(): void {
    this.#holders--
    this.#endWhenIdle()
  }

  /** `parse` sees the answer before anybody hears of an event that came after it. */
  call<T>(verb: Verb, given: readonly string[], parse: (answer: Buffer) => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#child ??= this.#start()
      this.#waiting.push({ take: (answer) => resolve(parse(answer)), reject })
      clearTimeout(this.#timer)
      const texts = [verb, ...given].map((text) => frame(Buffer.from(text)))
      this.#child.stdin?.write(frame(Buffer.concat(texts)))
    })
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#child?.kill('SIGKILL')
  }

  #start(): ChildProcess {
    const numbers = callNumbers[process.arch]
    if (!numbers) throw new AppError('internal', `this cannot be done on ${process.arch} processors`)
    const { spawn } = process.getBuiltinModule('node:child_process')
    const words = [...this.#perl, '-e', script, ...numbers.map(String)]
    const child = spawn(words[0]!, words.slice(1), {
      stdio: ['pipe', 'pipe', 'ignore'],
      env: {},
      cwd: '/',
    })
    const end = (cause?: unknown) => {
      if (this.#child !== child) return
      this.#child = undefined
      const error = new AppError('internal', 'the process for system calls ended: try again', { cause })
      for (const { reject } of this.#waiting.splice(0)) reject(error)
      this.#onEnd()
    }
    child.on('error', end)
    child.on('exit', () => end())
    child.stdin?.on('error', () => {})
    if (child.stdout) readFrames(child.stdout, (answer) => this.#take(answer))
    return child
  }

  #take(answer: Buffer): void {
    if (answer[0] === 0x65) this.#onEvents(answer.subarray(1))
    else {
      this.#waiting.shift()?.take(answer.subarray(1))
      this.#endWhenIdle()
    }
  }

  #endWhenIdle(): void {
    if (this.#holders > 0 || this.#waiting.length > 0) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      const child = this.#child
      this.#child = undefined
      child?.stdin?.end()
    }, idleMs).unref()
  }
}

function frame(bytes: Buffer): Buffer {
  const head = Buffer.alloc(4)
  head.writeUInt32BE(bytes.length)
  return Buffer.concat([head, bytes])
}

function readFrames(stream: NodeJS.ReadableStream, take: (frame: Buffer) => void): void {
  let held: Buffer = Buffer.alloc(0)
  stream.on('data', (chunk: Buffer) => {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk])
    const { items, rest } = splitFrames(held)
    held = rest
    for (const item of items) take(item)
  })
}

/** The whole frames in `bytes`, and what is left of them. */
export function splitFrames(bytes: Buffer): { items: Buffer[]; rest: Buffer } {
  const items: Buffer[] = []
  let at = 0
  while (bytes.length - at >= 4 && bytes.length - at - 4 >= bytes.readUInt32BE(at)) {
    const end = at + 4 + bytes.readUInt32BE(at)
    items.push(bytes.subarray(at + 4, end))
    at = end
  }
  return { items, rest: bytes.subarray(at) }
}
