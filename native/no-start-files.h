/* The beginning of a program that is linked without the start files: calls `run(argc, argv)`, which must be above this. */
__attribute__((used, noreturn)) static void begin(long *stack) {
  _exit(run((int)stack[0], (char **)(stack + 1)));
}

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\nxor %ebp, %ebp\nmov %rsp, %rdi\nand $-16, %rsp\ncall begin\n");
#elif defined(__aarch64__)
__asm__(".globl _start\n_start:\nmov x29, #0\nmov x30, #0\nmov x0, sp\nbl begin\n");
#endif
