# Runs R cells for the interpreter's server.
#
# Requests come as JSON lines on descriptor 3, events go as JSON lines to descriptor 4. What cells print is whatever
# this process and its children write to descriptors 1 and 2. Each cell ends with the marker of its request on both, so
# that the server knows when it has read all of it. Names of the kernel stay out of what cells see.

local({
  largest_text <- 48 * 1024 * 1024
  inches <- 7
  dots_per_inch <- 110
  requests <- fifo('/dev/fd/3', 'r', blocking = TRUE)
  open_output <- function(descriptor) fifo(paste0('/dev/fd/', descriptor), 'wb', blocking = TRUE)
  events <- open_output(4)
  outputs <- list(open_output(1), open_output(2))
  plots <- file.path(tempdir(), 'plots')
  executions <- 0
  pid <- Sys.getpid()

  # A pipe takes a piece of this size whole, or not at all; of a larger one a signal may lose a part.
  piece_size <- 4096

  write_all <- function(text, connection) {
    bytes <- charToRaw(enc2utf8(text))
    for (from in seq(1, length(bytes), piece_size)) {
      writeBin(bytes[from:min(from + piece_size - 1, length(bytes))], connection)
    }
  }

  send <- function(...) {
    # A process that a cell forked off must not speak for the kernel.
    if (Sys.getpid() != pid) return(invisible())
    event <- jsonlite::toJSON(list(...), auto_unbox = TRUE, null = 'null', na = 'null', digits = NA)
    write_all(paste0(event, '\n'), events)
  }

  send_result <- function(main, data) {
    data <- Filter(function(form) !is.null(form) && (!is.character(form) || nchar(form, 'bytes') <= largest_text), data)
    if (length(data) > 0) send(type = 'result', main = main, data = data)
  }

  # Column to list of values, as a table of Python has it.
  table_data <- function(frame) {
    lapply(as.list(frame), function(column) {
      if (inherits(column, c('POSIXt', 'Date'))) column <- format(column, '%Y-%m-%dT%H:%M:%S')
      if (is.factor(column)) column <- as.character(column)
      I(unname(column))
    })
  }

  escaped <- function(text) {
    gsub('>', '&gt;', gsub('<', '&lt;', gsub('&', '&amp;', text, fixed = TRUE), fixed = TRUE), fixed = TRUE)
  }

  table_html <- function(frame) {
    cells <- vapply(frame, function(column) escaped(format(column, trim = TRUE)), character(nrow(frame)))
    cells <- matrix(cells, nrow = nrow(frame))
    row <- function(tag, texts) paste0('<tr>', paste0('<', tag, '>', texts, '</', tag, '>', collapse = ''), '</tr>')
    body <- vapply(seq_len(nrow(frame)), function(at) row('td', cells[at, ]), '')
    paste0('<table>\n', paste(c(row('th', escaped(names(frame))), body), collapse = '\n'), '\n</table>')
  }

  or_nothing <- function(expression) tryCatch(expression, error = function(condition) NULL)

  show_value <- function(value, main) {
    # Printing may draw in place of writing, as figures of ggplot2 do.
    text <- paste(utils::capture.output(print(value)), collapse = '\n')
    if (text == '') return(invisible())
    data <- list('text/plain' = text)
    if (is.data.frame(value)) {
      data[['text/html']] <- or_nothing(table_html(value))
      data[['e2b/data']] <- or_nothing(table_data(value))
    }
    send_result(main, data)
  }

  open_plots <- function(...) {
    dir.create(plots, showWarnings = FALSE)
    name <- file.path(plots, paste0(format(length(dir(plots)), width = 4), '-%04d.png'))
    grDevices::png(name, width = inches, height = inches, units = 'in', res = dots_per_inch)
  }

  show_plots <- function() {
    grDevices::graphics.off()
    for (path in sort(dir(plots, full.names = TRUE))) {
      picture <- jsonlite::base64_enc(readBin(path, 'raw', file.size(path)))
      send_result(FALSE, list('image/png' = gsub('\n', '', picture, fixed = TRUE)))
    }
    unlink(plots, recursive = TRUE)
  }

  set_variables <- function(changes) {
    for (name in names(changes)) {
      value <- changes[[name]]
      if (is.null(value)) Sys.unsetenv(name) else do.call(Sys.setenv, stats::setNames(list(value), name))
    }
  }

  end_cell <- function(...) {
    stop(structure(class = c('warren_end_of_cell', 'condition'), list(message = '', call = NULL)))
  }

  # The calls of the cell, without those of the kernel around them and of R's way into the handler of errors.
  own_calls <- function(calls) {
    kernel <- which(vapply(calls, identical, NA, kernel_calls$evaluate))
    if (length(kernel) == 0) return(list())
    calls <- calls[seq_along(calls) > max(kernel)]
    handlers <- which(vapply(calls, function(one) identical(one[[1]], quote(.handleSimpleError)), NA))
    utils::head(calls, if (length(handlers) > 0) min(handlers) - 1 else -1)
  }

  traceback_of <- function(calls) {
    lines <- vapply(own_calls(calls), function(one) paste(deparse(one, nlines = 3L), collapse = '\n'), '')
    if (length(lines) > 0) paste0(seq_along(lines), '. ', lines) else character()
  }

  # What R says of a failure at its prompt: with the call where there is one of the cell.
  said <- function(kind, condition) {
    call <- conditionCall(condition)
    is_own <- !is.null(call) && !any(vapply(kernel_calls, identical, NA, call))
    paste0(kind, if (is_own) paste0(' in ', deparse(call, nlines = 1L)[[1]]), ': ', conditionMessage(condition))
  }

  send_error <- function(condition, calls) {
    value <- said('Error', condition)
    traceback <- paste(c(value, if (length(calls) > 0) c('Traceback:', calls)), collapse = '\n')
    send(type = 'error', name = 'ERROR', value = value, traceback = traceback)
  }

  kernel_calls <- list(
    parse = quote(parse(text = code, keep.source = TRUE, encoding = 'UTF-8')),
    evaluate = quote(eval(expressions[[at]], globalenv()))
  )

  evaluate <- function(code) {
    expressions <- eval(kernel_calls$parse)
    for (at in seq_along(expressions)) {
      result <- withVisible(eval(expressions[[at]], globalenv()))
      if (result$visible) show_value(result$value, at == length(expressions))
    }
  }

  run_cell <- function(code) {
    calls <- character()
    tryCatch(
      withCallingHandlers(
        allowInterrupts(evaluate(code)),
        error = function(condition) calls <<- traceback_of(sys.calls()),
        warning = function(condition) {
          message(said('Warning', condition))
          invokeRestart('muffleWarning')
        }
      ),
      error = function(condition) send_error(condition, calls),
      interrupt = function(condition) {
        send(type = 'error', name = 'InterruptedError', value = 'The execution was interrupted.', traceback = '')
      },
      warren_end_of_cell = function(condition) NULL
    )
  }

  # An interrupt that came too late for the last cell must not end the next one.
  drop_interrupts <- function() {
    tryCatch(allowInterrupts(Sys.sleep(0)), interrupt = function(condition) NULL)
  }

  execute <- function(request) {
    drop_interrupts()
    set_variables(request$set)
    executions <<- executions + 1
    send(type = 'started', count = executions)
    run_cell(request$code)
    while (sink.number() > 0) sink()
    tryCatch(show_plots(), error = function(condition) send_error(condition, character()))
    set_variables(request$restore)
    for (output in outputs) write_all(request$marker, output)
    send(type = 'done')
  }

  change_folder <- function(path) {
    tryCatch({
      setwd(path)
      send(type = 'done')
    }, error = function(condition) send(type = 'failed', reason = conditionMessage(condition)))
  }

  attach(list(q = end_cell, quit = end_cell), name = 'code-interpreter', warn.conflicts = FALSE)
  options(device = open_plots, width = 120)
  suspendInterrupts({
    send(type = 'ready')
    repeat {
      line <- readLines(requests, n = 1, encoding = 'UTF-8')
      if (length(line) == 0) break
      request <- jsonlite::fromJSON(line, simplifyVector = FALSE)
      if (request$type == 'execute') execute(request) else change_folder(request$path)
    }
  })
})
