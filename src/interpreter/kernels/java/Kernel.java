package warren;

import java.awt.image.RenderedImage;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import javax.imageio.ImageIO;
import sun.misc.Signal;

/**
 * Runs Java cells for the interpreter's server, in a JShell of this same process.
 *
 * Requests come as JSON lines on descriptor 3, events go as JSON lines to descriptor 4. What cells print is whatever
 * this process and its children write to descriptors 1 and 2. Each cell ends with the marker of its request on both,
 * so that the server knows when it has read all of it.
 */
public final class Kernel {
  private static OutputStream events;
  private final Cells cells = new Cells();
  private int executions = 0;

  private Kernel() {}

  public static void main(String[] args) throws Exception {
    events = new FileOutputStream("/dev/fd/4");
    new Kernel().serve();
  }

  /** For cells, which have it imported: shows a value besides the one that they end with. */
  public static void display(Object value) throws IOException {
    Map<String, Object> data = new LinkedHashMap<>();
    data.put("text/plain", String.valueOf(value));
    if (value instanceof RenderedImage image) {
      ByteArrayOutputStream png = new ByteArrayOutputStream();
      ImageIO.write(image, "png", png);
      data.put("image/png", Base64.getEncoder().encodeToString(png.toByteArray()));
    }
    sendResult(false, data);
  }

  static void sendResult(boolean isMain, Map<String, Object> data) throws IOException {
    System.out.flush();
    send("result", "main", isMain, "data", data);
  }

  static void sendError(String name, String value, String traceback) throws IOException {
    send("error", "name", name, "value", value, "traceback", traceback);
  }

  private static synchronized void send(String type, Object... fields) throws IOException {
    Map<String, Object> event = new LinkedHashMap<>();
    event.put("type", type);
    for (int i = 0; i < fields.length; i += 2) event.put((String) fields[i], fields[i + 1]);
    events.write((Json.write(event) + "\n").getBytes(StandardCharsets.UTF_8));
    events.flush();
  }

  private void serve() throws Exception {
    Signal.handle(new Signal("INT"), signal -> cells.interrupt());
    cells.start();
    send("ready");
    FileInputStream requests = new FileInputStream("/dev/fd/3");
    BufferedReader lines = new BufferedReader(new InputStreamReader(requests, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      Map<String, Object> request = Json.readObject(line);
      if ("execute".equals(request.get("type"))) execute(request);
      else checkFolder((String) request.get("path"));
    }
    System.exit(0);
  }

  private void execute(Map<String, Object> request) throws Exception {
    setVariables(request.get("set"));
    send("started", "count", ++executions);
    cells.run((String) request.get("code"));
    setVariables(request.get("restore"));
    System.out.flush();
    System.err.flush();
    byte[] marker = ((String) request.get("marker")).getBytes(StandardCharsets.UTF_8);
    for (FileDescriptor output : new FileDescriptor[] {FileDescriptor.out, FileDescriptor.err}) {
      // Not closed: that would close the descriptor of all cells to come.
      new FileOutputStream(output).write(marker);
    }
    send("done");
  }

  /** Java cannot go to another folder, so the server starts it in the one of its context. */
  private void checkFolder(String path) throws IOException {
    try {
      if (Files.isSameFile(Path.of(""), Path.of(path))) send("done");
      else send("failed", "reason", "it is no folder that can be entered");
    } catch (IOException error) {
      send("failed", "reason", String.valueOf(error));
    }
  }

  /** Cells find them by System.getenv as well as by System.getProperty. */
  private static void setVariables(Object changes) throws ReflectiveOperationException {
    Field inner = Collections.unmodifiableMap(Map.of()).getClass().getDeclaredField("m");
    inner.setAccessible(true);
    @SuppressWarnings("unchecked")
    Map<String, String> environment = (Map<String, String>) inner.get(System.getenv());
    for (Map.Entry<?, ?> change : ((Map<?, ?>) changes).entrySet()) {
      String name = (String) change.getKey();
      String value = (String) change.getValue();
      if (value == null) {
        environment.remove(name);
        System.clearProperty(name);
      } else {
        environment.put(name, value);
        System.setProperty(name, value);
      }
    }
  }
}
