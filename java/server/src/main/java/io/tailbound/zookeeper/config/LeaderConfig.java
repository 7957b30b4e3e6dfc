package io.tailbound.zookeeper.config;

/**
 * Settings that make a server ready to lead.
 *
 * @param deferSnapshot whether a new leader writes its snapshot after it serves instead of before
 * @param skipReplay whether the log is not read again at the end of a role when the data tree holds all
 *     of it
 * @param rehearsals how many recoveries are rehearsed inside of the process before it joins its ensemble
 */
public record LeaderConfig(boolean deferSnapshot, boolean skipReplay, int rehearsals) {

  /** More may not fit, on a busy machine, into the time after which a rehearsal is given up. */
  static final int MOST_REHEARSALS = 20;

  /** What a server of this kind rehearses if the file does not say. */
  static final int USUAL_REHEARSALS = 4;
}
