package warren;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import jdk.jshell.DeclarationSnippet;
import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.JShell;
import jdk.jshell.JShellException;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis.Completeness;
import jdk.jshell.SourceCodeAnalysis.CompletionInfo;
import jdk.jshell.UnresolvedReferenceException;

/** Runs cells, snippet by snippet, and sends what comes of them. */
final class Cells {
  /** As JShell has them for a person at its prompt. */
  private static final List<String> IMPORTS = List.of(
      "java.io.*", "java.math.*", "java.net.*", "java.nio.file.*", "java.util.*", "java.util.concurrent.*",
      "java.util.function.*", "java.util.prefs.*", "java.util.regex.*", "java.util.stream.*",
      "static warren.Kernel.display");

  private JShell shell;
  private volatile boolean isRunning = false;
  private volatile boolean isInterrupted = false;

  void start() {
    shell = JShell.builder().executionEngine("local").build();
    for (String name : IMPORTS) shell.eval("import " + name + ";");
  }

  /** Ends the cell that runs, if there is one, and keeps what is known. */
  void interrupt() {
    if (!isRunning) return;
    isInterrupted = true;
    shell.stop();
  }

  void run(String code) throws IOException {
    isInterrupted = false;
    isRunning = true;
    try {
      runSnippets(code);
    } finally {
      isRunning = false;
    }
    if (isInterrupted) Kernel.sendError("InterruptedError", "The execution was interrupted.", "");
  }

  private void runSnippets(String code) throws IOException {
    List<Snippet> declared = new ArrayList<>();
    String rest = code;
    while (!rest.isBlank() && !isInterrupted) {
      CompletionInfo info = shell.sourceCodeAnalysis().analyzeCompletion(rest);
      if (info.completeness() == Completeness.EMPTY) break;
      String source = info.source() == null ? rest : info.source();
      rest = info.source() == null ? "" : info.remaining();
      for (SnippetEvent event : shell.eval(source)) {
        if (event.causeSnippet() != null) continue;
        if (!isFine(event)) return;
        declared.add(event.snippet());
        if (rest.isBlank()) sendValue(event);
      }
    }
    for (Snippet snippet : declared) {
      if (shell.status(snippet) == Snippet.Status.RECOVERABLE_NOT_DEFINED) {
        sendUnresolved(snippet);
        return;
      }
    }
  }

  private boolean isFine(SnippetEvent event) throws IOException {
    if (isInterrupted) return false;
    if (event.status() == Snippet.Status.REJECTED) sendDiagnostics(event.snippet());
    else if (event.exception() != null) sendException(event.exception());
    else return true;
    return false;
  }

  private void sendValue(SnippetEvent event) throws IOException {
    Snippet.SubKind kind = event.snippet().subKind();
    boolean isShown = kind == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND
        || kind == Snippet.SubKind.VAR_VALUE_SUBKIND
        || kind == Snippet.SubKind.OTHER_EXPRESSION_SUBKIND;
    String value = event.value();
    if (isShown && value != null && !value.isEmpty()) Kernel.sendResult(true, Map.of("text/plain", value));
  }

  private void sendDiagnostics(Snippet snippet) throws IOException {
    String source = snippet.source();
    List<Diag> errors = shell.diagnostics(snippet).filter(Diag::isError).collect(Collectors.toList());
    String value = errors.stream().map(one -> one.getMessage(null)).collect(Collectors.joining("\n"));
    String traceback = errors.stream()
        .map(one -> one.getMessage(null) + "\n" + marked(source, (int) one.getPosition()))
        .collect(Collectors.joining("\n"));
    Kernel.sendError("CompilationException", value, traceback);
  }

  /** The line of the position, and a caret below it. */
  private static String marked(String source, int position) {
    int at = Math.max(0, Math.min(position, source.length()));
    int from = source.lastIndexOf('\n', at - 1) + 1;
    int end = source.indexOf('\n', from);
    return source.substring(from, end < 0 ? source.length() : end) + "\n" + " ".repeat(at - from) + "^";
  }

  private void sendUnresolved(Snippet snippet) throws IOException {
    String names = snippet instanceof DeclarationSnippet declaration
        ? shell.unresolvedDependencies(declaration).collect(Collectors.joining(", "))
        : "";
    String value = "It cannot be used until these are declared: " + names;
    Kernel.sendError("CompilationException", value, snippet.source().strip() + "\n" + value);
  }

  private void sendException(JShellException exception) throws IOException {
    if (exception instanceof EvalException thrown) {
      String message = thrown.getMessage() == null ? "" : thrown.getMessage();
      Kernel.sendError(thrown.getExceptionClassName(), message, traceback(thrown));
    } else if (exception instanceof UnresolvedReferenceException unresolved) {
      sendUnresolved(unresolved.getSnippet());
    }
  }

  private static String traceback(EvalException thrown) {
    List<String> lines = new ArrayList<>();
    String message = thrown.getMessage() == null ? "" : ": " + thrown.getMessage();
    lines.add(thrown.getExceptionClassName() + message);
    // A frame of a cell itself has no class: only the number of the snippet and the line in it.
    for (StackTraceElement frame : thrown.getStackTrace()) lines.add("\tat " + frame.toString().replaceFirst("^\\.", ""));
    if (thrown.getCause() instanceof EvalException cause) lines.add("Caused by: " + traceback(cause));
    return String.join("\n", lines);
  }
}
