import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { Refusal } from "./api/client";
import { routerWith } from "./app/router";
import { startTheme } from "./app/theme";
import { startWords } from "./words/words";

import "./styles/tokens.css";
import "./styles/app.css";
import "./styles/clients.css";

const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      // What the server has refused stays refused; what did not arrive may the next time.
      retry: (count, error) => !(error instanceof Refusal && error.problem.status < 500) && count < 1,
      retryDelay: 500,
      // A reader without a network is to hear of it; a query that waits for one says nothing.
      networkMode: "always",
    },
    mutations: { networkMode: "always" },
  },
});

startTheme();
startWords();
const router = routerWith(client);
const place = document.getElementById("root");
if (place !== null) {
  createRoot(place).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  );
}
