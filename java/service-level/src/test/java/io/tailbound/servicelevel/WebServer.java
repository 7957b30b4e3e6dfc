package io.tailbound.servicelevel;

import jakarta.servlet.DispatcherType;
import jakarta.servlet.http.HttpServlet;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.util.Map;
import org.apache.catalina.Context;
import org.apache.catalina.LifecycleException;
import org.apache.catalina.Wrapper;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.util.descriptor.web.ErrorPage;
import org.apache.tomcat.util.descriptor.web.FilterDef;
import org.apache.tomcat.util.descriptor.web.FilterMap;

/** A Tomcat with one servlet behind a filter, at a port of its own. */
final class WebServer implements AutoCloseable {
    private final Tomcat tomcat = new Tomcat();
    private final HttpClient client = HttpClient.newHttpClient();
    private final Context context;
    private final String contextPath;

    WebServer(Path folder, String contextPath, HttpServlet servlet, ServiceLevelFilter filter,
            Map<String, String> parameters) throws LifecycleException {
        this.contextPath = contextPath;
        tomcat.setBaseDir(folder.toString());
        tomcat.setPort(0);
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        context = tomcat.addContext(contextPath, folder.toString());
        Wrapper wrapper = Tomcat.addServlet(context, "application", servlet);
        wrapper.setAsyncSupported(true);
        context.addServletMappingDecoded("/*", "application");
        FilterDef definition = new FilterDef();
        definition.setFilterName("service-level");
        definition.setFilter(filter);
        definition.setAsyncSupported("true");
        parameters.forEach(definition::addInitParameter);
        context.addFilterDef(definition);
        FilterMap map = new FilterMap();
        map.setFilterName("service-level");
        map.addURLPattern("/*");
        for (DispatcherType type : new DispatcherType[] {
            DispatcherType.REQUEST, DispatcherType.ERROR, DispatcherType.ASYNC, DispatcherType.FORWARD
        }) {
            map.setDispatcher(type.name());
        }
        context.addFilterMap(map);
        ErrorPage page = new ErrorPage();
        page.setErrorCode(500);
        page.setLocation("/error");
        context.addErrorPage(page);
        tomcat.start();
    }

    /** Whether the filter let the application start. */
    boolean isAvailable() {
        return context.getState().isAvailable();
    }

    HttpResponse<String> send(String method, String path, String... headers) throws IOException, InterruptedException {
        URI uri = URI.create("http://127.0.0.1:" + tomcat.getConnector().getLocalPort() + contextPath + path);
        HttpRequest.Builder request =
                HttpRequest.newBuilder(uri).method(method, HttpRequest.BodyPublishers.noBody());
        if (headers.length > 0) {
            request.headers(headers);
        }
        return client.send(request.build(), HttpResponse.BodyHandlers.ofString());
    }

    String get(String path, String... headers) throws IOException, InterruptedException {
        return send("GET", path, headers).body();
    }

    @Override
    public void close() throws LifecycleException {
        tomcat.stop();
        tomcat.destroy();
    }
}
