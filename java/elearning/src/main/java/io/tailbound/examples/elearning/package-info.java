/**
 * A web application that answers with the learning objects near a position, delivers their contents, and reports
 * its own response times: the application under test of {@code examples/elearning}.
 */
package io.tailbound.examples.elearning;
