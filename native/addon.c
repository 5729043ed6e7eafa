/*
 * Gives src/lib/c-library.ts two things that Node lacks: to call a function of the C library by its name, and to start a
 * process by a list of system calls. The addon needs no prototypes: on x86-64 and ARM64, each integer or address takes one
 * register, in order.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <node_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "start-process.h"

#define MOST_VALUES 6
#define LONGEST_NAME 64

typedef long (*c_function)(long, long, long, long, long, long);

/* `errno` of the last call, copied at once, because Node's own calls may change `errno`. */
static _Thread_local int last_error;

static napi_value number_of(napi_env env, int64_t value) {
  napi_value number = NULL;
  napi_create_int64(env, value, &number);
  return number;
}

/* Null means the address 0. A missing value, or one of another type, is an error of the caller. */
static bool read_value(napi_env env, napi_value given, long *value) {
  napi_valuetype type;
  if (napi_get_value_int64(env, given, value) == napi_ok) return true;
  if (napi_get_buffer_info(env, given, (void **)value, NULL) == napi_ok) return true;
  *value = 0;
  if (napi_typeof(env, given, &type) == napi_ok && type == napi_null) return true;
  napi_throw_type_error(env, NULL, "A call of the C library takes numbers, buffers and null.");
  return false;
}

/* Returns the number of values given, or -1 after it has thrown an error. Values that were not given are 0. */
static int read_values(napi_env env, napi_callback_info info, long values[MOST_VALUES], void **data) {
  napi_value given[MOST_VALUES];
  size_t count = MOST_VALUES;
  napi_get_cb_info(env, info, &count, given, NULL, data);
  if (count > MOST_VALUES) {
    napi_throw_type_error(env, NULL, "A call of the C library takes at most six values.");
    return -1;
  }
  for (size_t at = 0; at < MOST_VALUES; at++) values[at] = 0;
  for (size_t at = 0; at < count; at++)
    if (!read_value(env, given[at], &values[at])) return -1;
  return (int)count;
}

/* False: an error was thrown. */
static bool call_function(napi_env env, napi_callback_info info, long *result) {
  long values[MOST_VALUES];
  void *data;
  if (read_values(env, info, values, &data) < 0) return false;
  c_function function = (c_function)data;
  *result = function(values[0], values[1], values[2], values[3], values[4], values[5]);
  last_error = errno;
  return true;
}

/* The upper half of the register is undefined after a function that returns an int. */
static napi_value call_for_int(napi_env env, napi_callback_info info) {
  long result;
  return call_function(env, info, &result) ? number_of(env, (int)result) : NULL;
}

static napi_value call_for_long(napi_env env, napi_callback_info info) {
  long result;
  return call_function(env, info, &result) ? number_of(env, result) : NULL;
}

/* func(name, returnsLong): a JavaScript function that calls the function of this name in Node's own C library. */
static napi_value find_function(napi_env env, napi_callback_info info) {
  napi_value given[2];
  size_t count = 2;
  char name[LONGEST_NAME] = "";
  bool returns_long = false;
  napi_value function = NULL;
  napi_get_cb_info(env, info, &count, given, NULL, NULL);
  napi_get_value_string_utf8(env, given[0], name, sizeof(name), NULL);
  napi_get_value_bool(env, given[1], &returns_long);
  void *library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  void *address = library ? dlsym(library, name) : NULL;
  if (address) napi_create_function(env, name, NAPI_AUTO_LENGTH, returns_long ? call_for_long : call_for_int, address, &function);
  else napi_throw_error(env, NULL, "The C library has no function of this name.");
  return function;
}

static napi_value get_errno(napi_env env, napi_callback_info info) {
  (void)info;
  return number_of(env, last_error);
}

/* view(address, bytes): an ArrayBuffer over memory that Node did not allocate and will not free. */
static napi_value view_memory(napi_env env, napi_callback_info info) {
  long values[MOST_VALUES];
  napi_value view = NULL;
  if (read_values(env, info, values, NULL) < 0) return NULL;
  if (napi_create_external_arraybuffer(env, (void *)values[0], (size_t)values[1], NULL, NULL, &view) != napi_ok)
    napi_throw_error(env, NULL, "Node gives no view of memory that it did not allocate.");
  return view;
}

/* addressOf(buffer) */
static napi_value get_address(napi_env env, napi_callback_info info) {
  long values[MOST_VALUES];
  return read_values(env, info, values, NULL) < 0 ? NULL : number_of(env, values[0]);
}

/* startProcess(steps, stackEnd, flags): the process ID or a negative error number. */
static napi_value start_by_steps(napi_env env, napi_callback_info info) {
  long values[MOST_VALUES];
  if (read_values(env, info, values, NULL) < 0) return NULL;
  return number_of(env, start_process((struct step *)values[0], (void *)values[1], (int)values[2]));
}

NAPI_MODULE_INIT() {
  static const napi_property_descriptor functions[] = {
      {"func", NULL, find_function, NULL, NULL, NULL, napi_default, NULL},
      {"errno", NULL, get_errno, NULL, NULL, NULL, napi_default, NULL},
      {"view", NULL, view_memory, NULL, NULL, NULL, napi_default, NULL},
      {"addressOf", NULL, get_address, NULL, NULL, NULL, napi_default, NULL},
      {"startProcess", NULL, start_by_steps, NULL, NULL, NULL, napi_default, NULL},
  };
  napi_define_properties(env, exports, sizeof(functions) / sizeof(*functions), functions);
  return exports;
}
