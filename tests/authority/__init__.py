"""Authority: nobody gains more than they hold, by any route."""
