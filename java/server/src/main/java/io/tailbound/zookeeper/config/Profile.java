package io.tailbound.zookeeper.config;

/**
 * A named set of switches, from which single keys may deviate.
 *
 * <p>Source of the two thesis profiles: Li 2021, section 5.4.
 */
public enum Profile {
  /** Every mechanism off: behaves like the stock server. */
  VANILLA("vanilla"),
  /** FCLE and FQCE with the short fixed wait (the thesis's RTZK-L). */
  THESIS_LITE("thesis-lite"),
  /** As thesis-lite, and epoch values off the critical path (the thesis's RTZK). */
  THESIS_FULL("thesis-full"),
  /** Everything that this project offers; the default. */
  TAILBOUND("tailbound");

  private final String text;

  Profile(String text) {
    this.text = text;
  }

  @Override
  public String toString() {
    return text;
  }
}
