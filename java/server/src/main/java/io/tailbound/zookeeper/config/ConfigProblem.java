package io.tailbound.zookeeper.config;

import java.nio.file.Path;

/**
 * A {@code tailbound.*} entry of a configuration file that cannot be used. The message names file,
 * line and key, says what is wrong and what would be right.
 */
public final class ConfigProblem extends Exception {

  /**
   * @param file the configuration file
   * @param line number of the line, counted from 1
   * @param key the key as written
   * @param problem what is wrong and what would be right
   */
  public ConfigProblem(Path file, int line, String key, String problem) {
    super(file + ":" + line + ": " + key + ": " + problem);
  }

  /**
   * @param file the configuration file
   * @param problem why it cannot be read at all
   */
  public ConfigProblem(Path file, String problem) {
    super(file + ": " + problem);
  }
}
