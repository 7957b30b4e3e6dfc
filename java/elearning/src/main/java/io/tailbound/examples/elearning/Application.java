package io.tailbound.examples.elearning;

import jakarta.servlet.ServletContext;
import jakarta.servlet.ServletContextEvent;
import jakarta.servlet.ServletContextListener;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.sql.SQLException;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.concurrent.TimeUnit;

/** The parts of the application: made at its start, which waits for the database, and closed at its end. */
public final class Application implements ServletContextListener {
    private static final String NAME = Application.class.getName();
    /** Five minutes of 200 responses a second, in about 3 MiB. */
    private static final int LOG_CAPACITY = 65_536;
    private static final long TABLE_PAUSE_MS = 1000;
    private static final long RETRY_MS = 50;
    private static final int CONNECT_LIMIT_MS = 1000;

    private final ResponseLog log = new ResponseLog(LOG_CAPACITY);
    private CourseDatabase database;
    private ResponseTable table;

    /** The application of a servlet. */
    static Application of(ServletContext context) {
        return (Application) context.getAttribute(NAME);
    }

    /** Now, in microseconds since 1970. */
    static long nowUs() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    CourseDatabase database() {
        return database;
    }

    ResponseLog log() {
        return log;
    }

    /** Notes a response. */
    void note(Response response) {
        log.add(response);
        if (table != null) {
            table.add(response);
        }
    }

    /** The fate of the rows of the table. */
    ResponseTable.Rows rows() {
        return table == null ? ResponseTable.Rows.NONE : table.rows();
    }

    @Override
    public void contextInitialized(ServletContextEvent event) {
        Settings settings = Settings.read(System::getProperty);
        try {
            long endNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(settings.patienceSeconds());
            awaitPort(settings.port(), endNs);
            database = new CourseDatabase(settings);
            awaitData(endNs);
        } catch (SQLException | IOException | InterruptedException failed) {
            throw new IllegalStateException("the application does not start: " + failed.getMessage(), failed);
        }
        table = settings.table() ? new ResponseTable(database::write, TABLE_PAUSE_MS) : null;
        event.getServletContext().setAttribute(NAME, this);
    }

    /** Waits until the database, which starts at the same time, accepts connections. */
    private static void awaitPort(InetSocketAddress port, long endNs) throws IOException, InterruptedException {
        while (true) {
            try (Socket probe = new Socket()) {
                probe.connect(port, CONNECT_LIMIT_MS);
                return;
            } catch (IOException absent) {
                if (System.nanoTime() > endNs) {
                    throw new IOException("no database at " + port, absent);
                }
            }
            Thread.sleep(RETRY_MS);
        }
    }

    /** Waits until the database answers. */
    private void awaitData(long endNs) throws SQLException, InterruptedException {
        while (true) {
            try {
                if (database.isComplete()) {
                    return;
                }
                throw new SQLException("the database lacks data; remove its folder, and let it be made anew");
            } catch (SQLException absent) {
                if (System.nanoTime() > endNs) {
                    throw absent;
                }
            }
            Thread.sleep(RETRY_MS);
        }
    }

    @Override
    public void contextDestroyed(ServletContextEvent event) {
        try {
            if (table != null) {
                table.close();
            }
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
        try {
            if (database != null) {
                database.close();
            }
        } catch (SQLException failed) {
            event.getServletContext().log("connections of the database were not closed", failed);
        }
    }
}
