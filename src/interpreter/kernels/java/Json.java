package warren;

import java.util.LinkedHashMap;
import java.util.Map;

/** As much of JSON as the kernel's requests and events need: objects, strings, whole numbers, true, false and null. */
final class Json {
  private final String text;
  private int at = 0;

  private Json(String text) {
    this.text = text;
  }

  @SuppressWarnings("unchecked")
  static Map<String, Object> readObject(String text) {
    return (Map<String, Object>) new Json(text).value();
  }

  static String write(Object value) {
    StringBuilder out = new StringBuilder();
    writeTo(out, value);
    return out.toString();
  }

  private static void writeTo(StringBuilder out, Object value) {
    if (value instanceof Map<?, ?> map) {
      String separator = "{";
      for (Map.Entry<?, ?> entry : map.entrySet()) {
        out.append(separator);
        writeTo(out, String.valueOf(entry.getKey()));
        out.append(':');
        writeTo(out, entry.getValue());
        separator = ",";
      }
      out.append(map.isEmpty() ? "{}" : "}");
    } else if (value instanceof String string) {
      out.append('"');
      for (int i = 0; i < string.length(); i++) writeCharacter(out, string.charAt(i));
      out.append('"');
    } else {
      out.append(value);
    }
  }

  private static void writeCharacter(StringBuilder out, char one) {
    if (one == '"' || one == '\\') out.append('\\').append(one);
    else if (one >= ' ' && one <= '~') out.append(one);
    else out.append(String.format("\\u%04x", (int) one));
  }

  private Object value() {
    skipBlanks();
    char first = text.charAt(at);
    if (first == '{') return object();
    if (first == '"') return string();
    int from = at;
    while (at < text.length() && ",}] \t".indexOf(text.charAt(at)) < 0) at++;
    String word = text.substring(from, at);
    return switch (word) {
      case "null" -> null;
      case "true", "false" -> Boolean.valueOf(word);
      default -> Long.valueOf(word);
    };
  }

  private Map<String, Object> object() {
    Map<String, Object> found = new LinkedHashMap<>();
    at++;
    skipBlanks();
    while (text.charAt(at) != '}') {
      String name = string();
      skipBlanks();
      at++;
      found.put(name, value());
      skipBlanks();
      if (text.charAt(at) == ',') at++;
      skipBlanks();
    }
    at++;
    return found;
  }

  private String string() {
    StringBuilder found = new StringBuilder();
    for (at++; text.charAt(at) != '"'; at++) {
      char one = text.charAt(at);
      found.append(one == '\\' ? escaped() : one);
    }
    at++;
    return found.toString();
  }

  private char escaped() {
    char kind = text.charAt(++at);
    switch (kind) {
      case 'n': return '\n';
      case 't': return '\t';
      case 'r': return '\r';
      case 'b': return '\b';
      case 'f': return '\f';
      case 'u':
        at += 4;
        return (char) Integer.parseInt(text.substring(at - 3, at + 1), 16);
      default: return kind;
    }
  }

  private void skipBlanks() {
    while (Character.isWhitespace(text.charAt(at))) at++;
  }
}
