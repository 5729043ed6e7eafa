/**
 * A Go package that is added to gVisor's sources. Go initialises packages in the order of their names, as far as what they
 * need allows it, so this one comes before nearly all others of the program, whose initialisation takes six milliseconds.
 *
 * - Every sandbox unmounts its /proc by another start of the whole program. Here it ends before the rest begins.
 * - Go collects garbage when the heap has reached 4 MB, and then each time that it has doubled. A sandbox that boots keeps
 *   most of what it allocates. So the first collection waits for 16 MB, or until the start is ten seconds ago: then all
 *   that is free goes back to the machine. From there on it is as usual. Commands of runsc end before they collect.
 */
export const earlyPackage = {
  file: 'early/early.go',
  text: `// Package early is initialised before the rest of the program.
package early

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"
)

func init() {
	if len(os.Args) == 4 && os.Args[1] == "umount" && os.Args[2] == "--sync-fd=3" {
		umount(os.Args[3])
	}
	usual := debug.SetGCPercent(400)
	var once sync.Once
	collectAsUsual := func() { once.Do(func() { debug.SetGCPercent(usual) }) }
	time.AfterFunc(10*time.Second, func() {
		collectAsUsual()
		debug.FreeOSMemory()
	})
	// The first collection finds that nobody needs it.
	runtime.SetFinalizer(new([64]byte), func(*[64]byte) { collectAsUsual() })
}

// umount does what the command of this name does in gVisor.
func umount(folder string) {
	var one [1]byte
	if n, err := syscall.Read(3, one[:]); err != nil || n != 1 {
		os.Exit(128)
	}
	if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil {
		os.Exit(128)
	}
	os.Exit(0)
}
`,
} as const
