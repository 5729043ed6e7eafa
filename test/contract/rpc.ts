/**
 * The remote calls of the agent (Connect over HTTP) that clients make, in our own words: what each takes and gives, and
 * the number of every field. `rpc.test.ts` holds it against the code that is generated from `proto/`.
 */
export type Calls = Record<string, { accepts: string; gives: string; does: string }>

export const calls: Record<string, Calls> = {
  'process.Process': {
    List: { accepts: 'ListRequest', gives: 'ListResponse', does: 'list processes' },
    Start: { accepts: 'StartRequest', gives: 'stream StartResponse', does: 'start a process and follow it' },
    Connect: { accepts: 'ConnectRequest', gives: 'stream ConnectResponse', does: 'follow a running process' },
    Update: { accepts: 'UpdateRequest', gives: 'UpdateResponse', does: 'resize a terminal' },
    StreamInput: {
      accepts: 'stream StreamInputRequest',
      gives: 'StreamInputResponse',
      does: 'write as it comes',
    },
    SendInput: { accepts: 'SendInputRequest', gives: 'SendInputResponse', does: 'write to a process' },
    SendSignal: { accepts: 'SendSignalRequest', gives: 'SendSignalResponse', does: 'signal a process' },
    CloseStdin: {
      accepts: 'CloseStdinRequest',
      gives: 'CloseStdinResponse',
      does: 'end the input of a process',
    },
  },
  'filesystem.Filesystem': {
    Stat: { accepts: 'StatRequest', gives: 'StatResponse', does: 'read about one path' },
    MakeDir: { accepts: 'MakeDirRequest', gives: 'MakeDirResponse', does: 'make a folder' },
    Move: { accepts: 'MoveRequest', gives: 'MoveResponse', does: 'move or rename' },
    ListDir: { accepts: 'ListDirRequest', gives: 'ListDirResponse', does: 'list a folder' },
    Remove: { accepts: 'RemoveRequest', gives: 'RemoveResponse', does: 'remove a path and all below it' },
    WatchDir: {
      accepts: 'WatchDirRequest',
      gives: 'stream WatchDirResponse',
      does: 'follow changes in a folder',
    },
    CreateWatcher: {
      accepts: 'CreateWatcherRequest',
      gives: 'CreateWatcherResponse',
      does: 'begin to watch',
    },
    GetWatcherEvents: {
      accepts: 'GetWatcherEventsRequest',
      gives: 'GetWatcherEventsResponse',
      does: 'take what a watcher saw',
    },
    RemoveWatcher: { accepts: 'RemoveWatcherRequest', gives: 'RemoveWatcherResponse', does: 'stop to watch' },
  },
}

const watched = 'path=1 recursive=2 include_entry=3 allow_network_mounts=4'

/** Fields by message; messages without fields are left out. */
export const messages: Record<string, Record<string, string>> = {
  'process.Process': {
    PTY: 'size=1',
    'PTY.Size': 'cols=1 rows=2',
    ProcessConfig: 'cmd=1 args=2 envs=3 cwd=4',
    ListResponse: 'processes=1',
    ProcessInfo: 'config=1 pid=2 tag=3',
    StartRequest: 'process=1 pty=2 tag=3 stdin=4',
    UpdateRequest: 'process=1 pty=2',
    ProcessEvent: 'start=1 data=2 end=3 keepalive=4',
    'ProcessEvent.StartEvent': 'pid=1',
    'ProcessEvent.DataEvent': 'stdout=1 stderr=2 pty=3',
    'ProcessEvent.EndEvent': 'exit_code=1 exited=2 status=3 error=4',
    StartResponse: 'event=1',
    ConnectResponse: 'event=1',
    SendInputRequest: 'process=1 input=2',
    ProcessInput: 'stdin=1 pty=2',
    StreamInputRequest: 'start=1 data=2 keepalive=3',
    'StreamInputRequest.StartEvent': 'process=1',
    'StreamInputRequest.DataEvent': 'input=2',
    SendSignalRequest: 'process=1 signal=2',
    CloseStdinRequest: 'process=1',
    ConnectRequest: 'process=1',
    ProcessSelector: 'pid=1 tag=2',
  },
  'filesystem.Filesystem': {
    StatRequest: 'path=1',
    StatResponse: 'entry=1',
    MakeDirRequest: 'path=1',
    MakeDirResponse: 'entry=1',
    MoveRequest: 'source=1 destination=2',
    MoveResponse: 'entry=1',
    ListDirRequest: 'path=1 depth=2',
    ListDirResponse: 'entries=1',
    RemoveRequest: 'path=1',
    WatchDirRequest: watched,
    WatchDirResponse: 'start=1 filesystem=2 keepalive=3',
    CreateWatcherRequest: watched,
    CreateWatcherResponse: 'watcher_id=1',
    GetWatcherEventsRequest: 'watcher_id=1',
    GetWatcherEventsResponse: 'events=1',
    RemoveWatcherRequest: 'watcher_id=1',
    FilesystemEvent: 'name=1 type=2 entry=3',
    EntryInfo: [
      'name=1 type=2 path=3 size=4 mode=5 permissions=6 owner=7 group=8 modified_time=9',
      'symlink_target=10 metadata=11 is_symlink=12',
    ].join(' '),
  },
}

export const enums: Record<string, Record<string, string>> = {
  'process.Process': { Signal: 'SIGNAL_UNSPECIFIED=0 SIGNAL_SIGKILL=9 SIGNAL_SIGTERM=15' },
  'filesystem.Filesystem': {
    FileType: 'FILE_TYPE_UNSPECIFIED=0 FILE_TYPE_FILE=1 FILE_TYPE_DIRECTORY=2 FILE_TYPE_SYMLINK=3',
    EventType: [
      'EVENT_TYPE_UNSPECIFIED=0 EVENT_TYPE_CREATE=1 EVENT_TYPE_WRITE=2 EVENT_TYPE_REMOVE=3',
      'EVENT_TYPE_RENAME=4 EVENT_TYPE_CHMOD=5',
    ].join(' '),
  },
}
