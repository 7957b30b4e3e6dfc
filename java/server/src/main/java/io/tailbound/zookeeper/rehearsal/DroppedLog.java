package io.tailbound.zookeeper.rehearsal;

import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.LoggerContext;
import ch.qos.logback.classic.encoder.PatternLayoutEncoder;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.Appender;
import ch.qos.logback.core.OutputStreamAppender;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.slf4j.LoggerFactory;

/**
 * While it is open, log lines of the process are formatted and dropped. With another backend than logback
 * they are written as ever.
 */
final class DroppedLog implements AutoCloseable {

  private static final String PATTERN = "%d{ISO8601} [myid:%X{myid}] - %-5p [%t:%logger{0}] - %m%n";

  private final Map<Logger, List<Appender<ILoggingEvent>>> detached = new LinkedHashMap<>();
  private final OutputStreamAppender<ILoggingEvent> nowhere = new OutputStreamAppender<>();

  DroppedLog() {
    if (!(LoggerFactory.getILoggerFactory() instanceof LoggerContext context)) {
      return;
    }
    for (Logger logger : context.getLoggerList()) {
      List<Appender<ILoggingEvent>> appenders = new ArrayList<>();
      for (Iterator<Appender<ILoggingEvent>> all = logger.iteratorForAppenders(); all.hasNext();) {
        appenders.add(all.next());
      }
      if (!appenders.isEmpty()) {
        detached.put(logger, appenders);
      }
    }
    PatternLayoutEncoder encoder = new PatternLayoutEncoder();
    encoder.setContext(context);
    encoder.setPattern(PATTERN);
    encoder.start();
    nowhere.setContext(context);
    nowhere.setEncoder(encoder);
    nowhere.setOutputStream(OutputStream.nullOutputStream());
    nowhere.start();
    context.getLogger(Logger.ROOT_LOGGER_NAME).addAppender(nowhere);
    detached.forEach((logger, appenders) -> appenders.forEach(logger::detachAppender));
  }

  @Override
  public void close() {
    detached.forEach((logger, appenders) -> appenders.forEach(logger::addAppender));
    if (LoggerFactory.getILoggerFactory() instanceof LoggerContext context) {
      context.getLogger(Logger.ROOT_LOGGER_NAME).detachAppender(nowhere);
      nowhere.stop();
    }
  }
}
